// Command allocators compares ways to choose a pod's node and CPUs: the same pods come to a cluster
// of simulated machines, and each [system] places them.
//
//	go run -C bench ./allocators
//
// # The systems
//
// The stock scheduler is kube-scheduler with its default profile: its plugins filter and score the
// nodes for pods whose CPU requests are what they ask for. Of nodes with equal scores a random one
// is taken, as there. Then the node chooses the CPUs:
//
//   - The kubelet's own code (package kubelet) without topology manager, with all options
//     (best-effort), and the same with single-numa-node.
//   - dra-driver-cpu, as it is by default: a device per NUMA node. Its own code chooses the CPUs
//     (cpumanager.TakeByTopologyNUMAPacked). Which arguments it gets is copied from the driver
//     (prepareGroupedResourceClaim), because only a driver that runs on a node can be called.
//   - Pinfold's agent: core/ledger decides about all CPUs of the node.
//   - Pinfold's DRA driver: a device per NUMA node (kube/dra), in which core/ledger decides.
//
// For both DRA drivers kube-scheduler's own allocator
// (k8s.io/dynamic-resource-allocation/structured) chooses the device. It is asked for each node
// that passes the filters, as by the plugin DynamicResources, and nodes without an answer are left
// out.
//
// Pinfold's scheduler is the same kube-scheduler with the plugin and the configuration that Pinfold
// installs. The agent of each node allocates, and publishes that to the scheduler.
//
// The scheduler's queue and the API server are left out: a pod is scheduled when the one before it
// has its CPUs.
//
// # The pods
//
// Pods come and go so that those that would run if all were placed ask for up to 87.5% of the CPUs:
// before a pod comes, random others end until it fits in. The first pods fill the empty cluster;
// the 1,000 after them are counted. A pod that no node takes is gone. A pod that fails at its node
// is created again, at most 3 times. Finally pods come and none ends, until 20 in succession were
// not placed.
//
// Each machine reserves its first core, because the kubelet's static policy requires a reservation.
//
// # The columns
//
//   - placed, failed at the node: the number of counted pods, and of pods that a node refused.
//   - NUMA nodes, split cores: those of a placed pod's CPUs. A pod with an odd number of CPUs
//     splits at least one core.
//   - as well placed: the share of placed pods for which package placement finds no better CPUs, by
//     criteria 2 to 4 (NUMA nodes, their distance, split cores), among those that were free on the
//     same node at that moment. This is about the choice within the node; the other columns depend
//     on the choice of nodes, too, and on what earlier choices left.
//   - CPUs in use when full: the share of the CPUs that pods can get.
//
// Values are means over the seeds with 95% confidence intervals (Student's t), which are omitted if
// they round to 0. They are the same in every run.
package main
