// Command scheduler measures how many pods per second kube-scheduler binds with
// Pinfold's plugin, and, in the same run, how many it binds without. It prints lines
// that benchstat reads:
//
//	BenchmarkScheduler/nodes=500/plugin=pinfold  2000  541.2 pods/s  563.0 mid-pods/s  1702 sched-cpu-µs/pod  310 first-ms
//	BenchmarkScheduler/nodes=500/plugin=none     2000  560.8 pods/s  579.4 mid-pods/s  1583 sched-cpu-µs/pod    9 first-ms
//
// # The work
//
// Nodes of several shapes and pods of several sizes, made from a fixed seed: the same
// in every run of one version of this program. Half of the pods ask for policy static, the
// other half for static-burst, in random order. Without the plugin the pods are the same,
// less their annotations. Without and with it, kube-scheduler runs from the same
// executable, with the same limits on requests and the same parallelism, and its own
// default profile.
//
// # A measurement
//
// The scheduler is down while the pods are created. Then it is started with the
// configuration in question: a new process, in which no run leaves anything to the
// next. It becomes ready when all pods are in its queue, in the order of their names. A
// watch tells when each is bound:
//
//   - pods/s is from the first binding to the last;
//   - mid-pods/s is over the 80% of the bindings in the middle, without the caches that
//     fill at first and the wait for the last answers;
//   - sched-cpu-µs/pod is the CPU time, system and user, of the scheduler's process
//     from the first binding to the last. It depends least on what else the machine
//     does;
//   - first-ms is the time from readiness to the first binding. A scheduler pays it once
//     in its life: the plugin reads the topologies of all nodes in it.
//
// Afterwards all pods are read and checked: with the plugin each must bear an
// allocation that fits it and its node, no CPU may be of two pods or be reserved,
// and the books of every node must be free of conflicts and overflow. Without it no pod
// may bear one.
//
// The two take turns, and take turns in being first, so that a machine that
// gets slower or faster does so for both.
//
// # Scale
//
// With -scale the program measures what grows with a cluster, once for each scheduler and
// round:
//
//		BenchmarkStart/nodes=5000                 1  49.0 ready-s
//		BenchmarkScale/nodes=5000/plugin=pinfold  1  ... p50-ms  ... p99-ms  ... pods/s  ... idle-MiB  ... peak-MiB  ... first-ms  ... failover-ms
//
//	  - ready-s is the time from the start of the control plane until all nodes are ready
//	    and have their topology;
//	  - p50-ms and p99-ms are the times from sending a pod's creation until the watch shows
//	    the pod bound, for a fifth of the pods, at most 1,000, created at a steady rate
//	    (-rate) while nothing else waits;
//	  - pods/s is from the first binding to the last of the other pods, which are created
//	    while the scheduler runs;
//	  - idle-MiB and peak-MiB are the scheduler's resident memory before the first pod and
//	    its largest until the last;
//	  - failover-ms is the time from killing the scheduler, with all those pods bound, until
//	    the process that the supervisor starts in its place binds a pod that is waiting.
//
// # What else runs
//
// etcd, kube-apiserver and the scheduler share the CPUs of one machine here, and
// whatever they have in common makes the two figures more alike. So what
// would run on other machines is left out: kube-controller-manager is down while pods
// are scheduled, and so is KWOK. Nothing then answers for the kubelets, which report a
// pod's start two or three times; with -kubelets KWOK stays up and plays them, which costs
// the machine more than either scheduler, and the scheduler an update of the node for each.
package main
