// Package nodetopology writes a [topology.Machine] as a NodeResourceTopology
// object (topology.node.k8s.io/v1alpha2, the kind that topology-aware tools of
// the ecosystem share) and reads it back without loss.
//
// # Form
//
// One object per node, named like the node. Its zones are the parts of the
// machine that have a size worth looking at:
//
//	zone      type     parent             content
//	package-0 Package                     CPUs
//	node-0    Node     package-0          CPUs, memory; costs: distances to every NUMA node
//	llc-0     LLC      node-0             CPUs, cores
//
// A parent is named only where it holds the whole zone: an LLC that spans NUMA
// nodes has its package as parent, and one that spans packages has none. All
// else is in attributes with the prefix "pinfold.dev/". CPU sets are Linux
// cpulists. Partitions of CPUs are a list of "id:cpulist" separated by spaces:
// the cores of an LLC as "0:0,52 1:1,53", the dies of the machine, the kinds of
// core (fastest first, names in URL query escaping). CPUs that no Node zone
// lists have no NUMA node. An object for 1,024 CPUs takes about 20 KB of the
// 1.5 MiB that etcd accepts, and 170 KB when every CPU is an LLC of its own.
//
// # Trust
//
// The same machine and state always give the same object, byte for byte, so that
// an agent can write on change only ([Equal]). The reader makes use of that: it
// decodes the object, encodes the result again, and refuses the object unless it
// holds every zone, attribute and cost of the second encoding, a digest of all of
// them included. Whatever was lost or edited on the way is therefore found.
// Zones of other types and attributes of other names are left alone.
//
// # Ownership
//
// Node Feature Discovery's topology updater may write the object of the same
// name. [Owner] tells whose an object is; nobody here overwrites a foreign one.
package nodetopology
