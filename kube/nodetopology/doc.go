// Package nodetopology converts a [topology.Machine] to and from a NodeResourceTopology object
// (topology.node.k8s.io/v1alpha2, the kind that topology-aware tools share), without loss.
//
//	obj, err := nodetopology.FromMachine(nodeName, machine, state)
//	machine, state, err := nodetopology.ToMachine(obj)
//
// # Format
//
// There is one object per node, with the node's name. Its zones are:
//
//	zone      type     parent             content
//	package-0 Package                     CPUs
//	node-0    Node     package-0          CPUs, memory; costs: distances to every NUMA node
//	llc-0     LLC      node-0             CPUs, cores
//
// A zone names a parent only if the parent contains all of it: an LLC that spans NUMA nodes has its
// package as parent, and one that spans packages has no parent. Everything else is in attributes
// with the prefix "pinfold.dev/". CPU sets are Linux cpulists. Partitions of CPUs are a list of
// "id:cpulist" separated by spaces: the cores of an LLC as "0:0,52 1:1,53", the dies of the
// machine, and the kinds of core (fastest first, names in URL query escaping). CPUs that no Node
// zone lists have no NUMA node.
//
// An object for 1,024 CPUs takes about 20 KB, and 170 KB if every CPU is an LLC of its own. The
// limit of etcd is 1.5 MiB.
//
// # Integrity
//
// The same machine and state always give the same object, byte for byte, so an agent can write only
// on change ([Equal]). The reader relies on that: it decodes the object, encodes the result again,
// and rejects the object unless it contains every zone, attribute and cost of the second encoding,
// including a digest of all of them. This detects every loss or edit. Zones of other types and
// attributes with other names are ignored.
//
// # Ownership
//
// Node Feature Discovery's topology updater may write an object of the same name. [Owner] returns
// the writer of an object. Pinfold never overwrites an object of another writer.
package nodetopology
