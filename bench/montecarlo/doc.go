// Command montecarlo compares the speed of core/interference with that of the same model in numpy
// and in C, in one run on one machine.
//
// # What is compared
//
// 20 equal groups with exponential demand, burst 1, at a mean of .5, .7 and .9 of the quota, under
// the strict rule. Each program computes all statistics: E[WCET], P(WCET = 1), the distribution of
// WCET, throttle ratio, backlog, burst used and demand drawn. Each except the distribution has a
// standard error from independent replicas. The programs are:
//
//   - core/interference with one worker and with two.
//   - montecarlo.py: numpy with 4,000 replicas as the vector axis, double-precision arrays and
//     in-place operations. Generator (PCG64) and exponential numbers (ziggurat) are numpy's.
//   - montecarlo.c: one group after the other, double precision, gcc -O2. The generator is
//     xoshiro256++; exponential numbers are -log.
//
// # Method
//
// In each round, each program in turn simulates each load with the round's number as the seed. A
// rate is groups times periods over the time of the simulation alone, without compiling or starting
// a program. The rates of numpy and C include their warm-up periods; that of core/interference
// includes only the periods that it counts, which makes it 1 to 3% lower. Rates over CPU time are
// independent of other load on the machine, except through caches and frequency. Ratios are
// computed within a round. The table shows medians over rounds, with minimum and maximum.
//
// "Two workers to one" compares the time of two workers with the time of one. By CPU time it is the
// ratio that would result if both CPUs were always free: 2 x the CPU time of one over that of two.
//
// # Verification
//
// Every statistic of every program must agree with that of one worker within their combined
// standard error: the run fails if they differ by more than 5 standard errors, or if two workers
// get any other result than one. The largest difference is shown.
package main
