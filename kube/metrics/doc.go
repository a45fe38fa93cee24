// Package metrics reads from a Prometheus server, or one that speaks its protocol, what kubelets and
// kube-state-metrics have measured of the containers of a cluster.
//
//	plan, err := metrics.NewPlan(ctx, server, options)
//	for i := range plan.Batches {
//		workloads, err := plan.Read(ctx, server, i)
//	}
//
// # Queries
//
// Nothing is read in full: the server computes sums and quantiles of each container for a few slices
// of the time, such as days. A batch has the namespaces of at most [BatchContainers] containers, and
// a fixed number of queries, each with one value for each container and slice. If the server says
// that a query needs too many samples, or if an answer is too large for the client, the batch is
// divided.
//
// # What the metrics may be like
//
// Two servers may have scraped the same kubelet: the larger value of two with the same control group
// counts. A container that restarts has another group, and its counters begin at 0: increases are
// added. The limit of a container may change while it runs: times with another limit than the last
// one do not count. Without kube-state-metrics, limits are those of the control group, requests are
// not known, and each pod is a workload of its own.
package metrics
