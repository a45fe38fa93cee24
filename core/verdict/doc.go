// Package verdict says what to do about a CPU limit, from counters that are read every half minute or
// every few minutes, as monitoring systems have them: CPU time, enforcement periods and throttled
// periods.
//
//	v := verdict.Of(windows, goal)
//
// # What counters tell
//
// The CPU time of a window says what was wanted on average, if the group caught up in it. How that was
// divided among the window's periods of 100 ms it does not say, and the limit that a group needs depends
// on that. Three facts limit what that can have been: how many periods were throttled under a known limit
// at which load, how much that number varied from window to window, because long bursts throttle many
// periods in a row, and in how many periods the bandwidth timer ran, because it does not run while a group
// sleeps.
//
// So demand is modelled as bursts of some periods. In some of them, chosen at random, there is demand,
// which is the same in all periods of a burst, and drawn from a Gamma or a lognormal distribution. For
// each family, length of bursts and share of bursts with demand, the spread is found for which the model
// throttles as many periods as were counted, and the likelihood of everything that was counted. Models that are much
// less likely than the best are dropped ([unlikely]).
//
// # When there is no verdict
//
// Each of the other models gives a limit. If the largest is more than [farApart] times the smallest, the
// counters do not determine it, and there is no verdict but a command that would ([Verdict.Decide]).
// That these models are all there are is an assumption; docs/advice.md says how often it was wrong for
// programs that were recorded period by period.
package verdict
