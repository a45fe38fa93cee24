// Package advice recommends CPU settings for a container from a recording of its usage: limit,
// burst, enforcement period, CPU binding and number of threads. It also computes how many such
// containers fit on a node. Every recommendation carries its reason and its uncertainty, or states
// that there is not enough data.
//
//	goal := advice.DefaultGoal()
//	c, err := advice.ForContainer(ctx, series, nominal, goal, options)
//	n, err := advice.ForNode(ctx, series, nominal, nodeCPUs, limitCPUs, goal, options)
//
//	recording
//	    v
//	subject.go   the demand of each period (trace.Series.Demand), at each phase that periods may have
//	    v
//	replay.go    throttled periods for every limit and burst; bootstrap
//	    +--------------------------------------------+
//	    v                                            v
//	container.go, limit.go, burst.go,            node.go   copies on a node, in package
//	period.go, binding.go                        interference, until deadlines are missed
//
// Samples as long as a period do not show when in it a thread ran, and the model ignores the other
// groups of the machine. Therefore a recording made under a limit is also replayed under that same
// limit, and advice that the kernel's counters contradict is withheld or carries a warning.
//
// Replayed demand does not react to the limit. Clients that wait for an answer before they send the
// next request send more when they are served faster, and programs that size themselves by their
// limit behave alike. Record without a limit, at the load that is to be served.
package advice
