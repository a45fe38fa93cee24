// Package nodetopology converts a [topology.Machine] and a [State] to and from a NodeTopology object
// (pinfold.dev/v1alpha1), by which the agent of a node publishes its CPUs, and what it has allocated
// to pods, without loss.
//
//	object, err := nodetopology.FromMachine(nodeName, machine, state)
//	machine, state, err := nodetopology.ToMachine(object)
//	client, err := apiclient.New(config)
//
// # Format
//
// There is one object per node, with the node's name, which owns it. CPU sets are Linux cpulists.
// Partitions of CPUs are a list of "id:cpulist" separated by spaces: "0:0,52 1:1,53" are two cores
// of two threads. Kinds of core have names instead of ids (fastest first, in URL query escaping).
// NUMA nodes may have no CPUs, and CPUs that no NUMA node lists have none. For each NUMA node there
// is a row of distances ("10,21 21,10") and a size of memory.
//
// Allocations are JSON ([api.Allocation]). Without them an object takes 1 KB for 104 CPUs, 17 KB for
// 1,024 that are an LLC each. A [Decoder] decodes machines that differ in the memory only once.
//
// # Integrity
//
// The same machine and state always give the same object, so an agent can write only on change
// ([Equal]). A digest of all fields detects every edit.
package nodetopology
