// Package colocation measures what batch work costs an online service on the same CPUs.
//
//	result, err := colocation.Run(ctx, colocation.Config{...})
//	for _, c := range result.Compare() { fmt.Println(c.Condition, c.P99) }
//
// # Rounds
//
// The service is a web server that does the same work for each request. An open loop of requests uses
// a stated share of the CPUs. In each round there is one window alone, without batch work, and one per
// other [Condition], in random order. Other activity of the machine, which varies from minute to minute,
// so affects all conditions of a round alike.
//
// A window is disturbed, and not used, if other processes have used more than a limit of the CPUs, or
// if a hypervisor has taken more. What decides is measured in the window, but never its latencies. If
// too few rounds are left, there is no result.
//
// The load generator stands for clients on other machines. It has real-time priority, because its own
// waits for CPUs would otherwise count as latency of the service.
//
// # Comparison
//
// For each round, the quantile of a condition is divided by that of the window alone. The result is the
// geometric mean of these ratios, for p99 also their median, each with a bootstrap interval over rounds.
// A few windows with very long latencies change the mean and not the median. Quantiles of a window are
// exact, from the planned time of each request.
package colocation
