// Package sweep renders the results of a simulator sweep: how E[WCET] and P(WCET = 1) change with
// utilisation, for several numbers of groups and bursts.
//
// [Sweep.Files] turns a [Sweep] into files:
//
//	index.html                    everything on one self-contained page
//	sweep.csv                     the numbers, with their standard errors
//	NAME-expected-wcet.svg .png   E[WCET] for each distribution, downwards, so that up is better
//	NAME-probability-wcet1.svg .png
//
// In the charts, colour and marker show the number of groups, dashes show the burst, and bars are
// two standard errors, where visible. A hollow point may be wrong by more than the chart shows
// (Point.uncertain). Doubts reported by the simulator itself are in the page and in the CSV file.
package sweep
