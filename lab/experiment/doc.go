// Package experiment describes experiments about CPUs, and compares what was measured in them.
//
//	setups, err := config.Setups(cpus)    // what to run in the windows of a round
//	...
//	result, err := experiment.Read(file)  // what was measured
//	comparison := result.Compare(answer)  // what it says
//
// # Windows
//
// A [Config] has conditions and loads. A window is a short measurement of one condition under one
// load. Each round has a window of each, in random order. Other activity of the machine changes
// from minute to minute, so it affects all windows of a round alike.
//
// A window is disturbed, and not used, if other processes used more than a limit of the CPUs, or if
// a hypervisor took more. What decides is measured in the window, but is never one of the figures
// that are compared.
//
// # Comparison
//
// Each window has figures, such as the mean latency ([Figures]), and a histogram of its latencies. A
// [Value] is that of all windows of a condition together: a quantile is that of all their requests, and not
// given if fewer than ten are slower. Two conditions are compared by the ratio of their values. Intervals of
// 95% confidence and p come from rounds that are drawn again with replacement, the same for all conditions
// (a paired bootstrap, with Student's t distribution for few rounds, or for few that matter: if most of the slow
// requests are in three windows, there are three). If the interval of the ratio contains 1, the experiment cannot
// conclude that they differ. A figure that can be 0 has no ratio: the sign test compares the rounds. Among many
// comparisons, [Threshold] says which count.
//
// # Scale
//
// The documents describe experiments on machines with many CPUs. [Amount] scales them: numbers of
// CPUs, threads and clients are those of the document on a machine with as many CPUs, and
// proportionally less on a smaller one.
package experiment
