// Command scheduler measures how many pods per second kube-scheduler binds with and without
// Pinfold's plugin, in the same run. Its output is for benchstat:
//
//	BenchmarkScheduler/nodes=500/plugin=pinfold  2000  541.2 pods/s  563.0 mid-pods/s  1702 sched-cpu-µs/pod  310 first-ms
//	BenchmarkScheduler/nodes=500/plugin=none     2000  560.8 pods/s  579.4 mid-pods/s  1583 sched-cpu-µs/pod    9 first-ms
//
// # The workload
//
// Nodes of several shapes and pods of several sizes are generated from a fixed seed, the same in
// every run of one version of this program. Half of the pods ask for policy static, the other half
// for static-burst, in random order. Without the plugin the pods are the same, without their
// annotations. In both cases kube-scheduler runs from the same executable, with the same request
// limits and parallelism, and its own default profile.
//
// # A measurement
//
// The scheduler is down while the pods are created. Then a new scheduler process is started with
// the configuration under test, so that no run affects the next. It becomes ready when all pods are
// in its queue, in the order of their names. A watch reports when each pod is bound:
//
//   - pods/s is measured from the first binding to the last;
//   - mid-pods/s is measured over the middle 80% of the bindings, which excludes the filling of
//     caches and the wait for the last answers;
//   - sched-cpu-µs/pod is the CPU time, system and user, of the scheduler process from the first
//     binding to the last. It depends least on other load;
//   - first-ms is the time from readiness to the first binding. A scheduler process has this cost
//     once: the plugin reads the topologies of all nodes in it.
//
// Afterwards all pods must be bound. With the plugin, each must have an allocation of its node's agent,
// without it none.
//
// The two configurations alternate, and alternate in going first, so that changes in the machine's
// speed affect both.
//
// # Scale
//
// With -scale the program measures what grows with the size of a cluster, once for each scheduler
// and round:
//
//	BenchmarkStart/nodes=5000                 1  49.0 ready-s
//	BenchmarkScale/nodes=5000/plugin=pinfold  1  ... p50-ms  ... p99-ms  ... pods/s  ... idle-MiB  ... peak-MiB  ... first-ms  ... failover-ms
//
// The metrics are:
//
//   - ready-s is the time from the start of the control plane until all nodes are ready and have
//     their topology;
//   - p50-ms and p99-ms are the times from sending a pod's creation until the watch shows it bound,
//     for a fifth of the pods, at most 1,000, created at a steady rate (-rate) while no other pod
//     is pending;
//   - pods/s is measured from the first binding to the last of the other pods, which are created
//     while the scheduler runs;
//   - idle-MiB and peak-MiB are the scheduler's resident memory before the first pod, and its
//     maximum until the last;
//   - failover-ms is the time from killing the scheduler, with all those pods bound, until the
//     process that the supervisor starts in its place binds a pending pod.
//
// # Other processes
//
// etcd, kube-apiserver and the scheduler share the CPUs of one machine here, and this shared cost
// makes the two results more alike. So components that would run on other machines are stopped
// while pods are scheduled: kube-controller-manager and KWOK. The simulated agents of all nodes keep
// running in one process, although each would run on its own node, because the scheduler has to
// follow what they publish, about one NodeTopology per pod. So pods/s with the plugin includes their
// CPU time, and that of etcd and kube-apiserver for these objects: it is a figure of this machine.
// sched-cpu-µs/pod includes only what the scheduler takes to read them. Without the plugin the
// agents have nothing to allocate, and only watch.
//
// While KWOK is stopped, no kubelet reports the start of a pod, which it does two or three times per
// pod. With -kubelets, KWOK keeps running and simulates the kubelets. That costs the machine more
// than either scheduler, and the scheduler one update of the node per report.
package main
