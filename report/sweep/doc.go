// Package sweep shows what a sweep of the simulator found: how E[WCET] and P(WCET = 1)
// change with the utilisation, for several numbers of groups and bursts.
//
// A [Sweep] becomes files, by [Sweep.Files]:
//
//	index.html                    all of it on one page that needs nothing else
//	sweep.csv                     the numbers, with their standard errors
//	NAME-expected-wcet.svg .png   E[WCET] for each distribution, downwards, so that up is better
//	NAME-probability-wcet1.svg .png
//
// In the charts colour and marker say how many groups there are, dashes say how much
// burst, and bars are two standard errors, where these can be seen. A point is hollow
// when it may be wrong by more than a chart shows (Point.uncertain); what the simulator
// itself doubts is in the page and in the CSV file.
package sweep
