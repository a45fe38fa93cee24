// Package throttling measures what a CPU limit does to a server: the latencies that
// its clients see, beside what the kernel counted of its control group in the same
// time.
//
// Two shares of throttled periods are told, because they differ. The kernel's timer
// runs only while the group uses CPU time, and nr_periods counts those periods only: a
// server that is asked for a moment twice a second and throttled each time is
// throttled in a third of its timer periods, say, and in a fifth of all periods that
// went by.
//
// Usage is in percent of the limit, which stays the container's own also while
// somebody raises its quota.
package throttling
