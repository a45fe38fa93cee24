// Package throttling measures the effect of a CPU limit on a server: the latencies that clients
// observe, and what the kernel counted in the server's cgroup meanwhile. [MeasureAll] measures, and
// [WriteTable] and [WriteJSON] print the results.
//
// Two shares of throttled periods are reported, because they differ. The kernel's timer runs only
// while the group uses CPU time, and nr_periods counts only those periods. For example, a server
// with a short request twice a second that is throttled each time may be throttled in a third of
// its timer periods but in a fifth of all wall-clock periods.
//
// Usage is in percent of the container's own limit, also while its quota is raised.
package throttling
