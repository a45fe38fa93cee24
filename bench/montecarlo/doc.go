// Command montecarlo compares the speed of core/interference with that of the same model
// written in numpy and in C, in one run on one machine.
//
// # What is compared
//
// 20 groups alike with exponential demand, burst 1, at a mean of .5, .7 and .9 of the
// quota; rule strict. Everybody computes all statistics: E[WCET], P(WCET = 1), the
// distribution of WCET, throttle ratio, backlog, burst used and demand drawn, each but the
// distribution with a standard error from independent replicas.
//
//   - core/interference with one worker and with two.
//   - montecarlo.py: numpy, 4,000 replicas as the vector axis, arrays of double precision, operations
//     in place; its generator (PCG64) and its exponential numbers (ziggurat) are numpy's.
//   - montecarlo.c: one group after the other, double precision, gcc -O2; the generator is
//     xoshiro256++, exponential numbers are -log.
//
// # How
//
// In each round, each load is simulated by each of them in turn, with the round's number
// as the seed. A rate is groups times periods over the time of the simulation alone: neither
// compiling nor starting a program counts. The peers' rates include the periods of their
// warm-up, those of core/interference only what it counts, which is 1 to 3% less. Rates over
// CPU time disregard what else the machine does, but for its caches and frequency. Ratios are
// those within a round; medians over rounds are shown, with the lowest and the highest.
//
// "Two workers to one" compares the time of two with the time of one. By CPU time it is
// what it would be if both CPUs were free for all of the time: 2 x the CPU time of one
// over that of two.
//
// # Whether they compute the same
//
// Every figure of everybody must agree with that of one worker within its standard error
// and theirs: the run fails when they differ by more than 5 of them, or when two workers
// find anything else than one does. The largest difference is shown.
package main
