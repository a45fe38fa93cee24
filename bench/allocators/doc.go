// Command allocators compares who chooses nodes and CPUs: the same pods come to clusters of simulated
// machines, and each [system] places them.
//
//	go run ./bench/allocators >results
//
// # The systems
//
// The stock scheduler is kube-scheduler's own framework with its default profile: every filter and
// score is computed by its plugins, about pods whose CPU request is what they ask for. Of nodes with
// equal scores a random one is taken, as there. Then the node chooses the CPUs:
//
//   - kubelet: the kubelet's own code (package kubelet), without topology manager, with all options
//     (best-effort), and with single-numa-node.
//   - dra-driver-cpu: a device per NUMA node, its default. The pod's claim is allocated by the
//     scheduler's own allocator of devices (k8s.io/dynamic-resource-allocation/structured), asked for
//     each node that passes the filters, as in the plugin DynamicResources. The driver's own code,
//     cpumanager.TakeByTopologyNUMAPacked, chooses CPUs of that NUMA node. Which CPUs are passed to it
//     is copied from the driver (prepareGroupedResourceClaim), because that function is not exported.
//   - Pinfold's agent: core/ledger decides on the node, about the whole machine.
//   - Pinfold's DRA driver: devices as above, and core/ledger decides within the NUMA node.
//
// Pinfold's scheduler is the same framework with the plugin and the configuration that Pinfold
// installs. It chooses node and CPUs; they are read from its Binding.
//
// What is omitted: the scheduler's queue and cache, the API server, and time. A pod is scheduled
// when the one before it has its CPUs, and every system sees all nodes.
//
// # The pods
//
// A run is a machine, a mix of sizes and a seed. Pods come and go so that those that would run if all
// were placed ask for 87.5% of the cluster's CPUs: before a pod comes, random others end until it
// fits in. The first ones fill the empty cluster. The 1,000 pods after that are counted. A pod that
// no node takes is gone. A pod that fails at the node is created again, at most 3 times. Finally
// pods come and none ends, until 20 in succession found no node.
//
// Each machine reserves its first core, because the kubelet's static policy requires a reservation.
//
// # The measures
//
// Of a counted pod that was placed, the NUMA nodes and the split cores of its CPUs count. It is as
// well placed as possible if the best placement on its node at that moment (package placement) is no
// better by criteria 2 to 4: NUMA nodes, then their distance, then split cores. So this measures the
// choice within the node. The other columns depend on the choice of nodes, too, and on what earlier
// choices have left.
//
// Results are means over the seeds with 95% confidence intervals (Student's t). They are the same in
// every run.
package main
