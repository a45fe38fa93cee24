// Package sysfs reads a [topology.Machine] from a /sys tree, the host's or a captured one.
//
//	machine, notes, err := sysfs.Host(cpuset.Set{})                    // this machine
//	machine, err := sysfs.Read(os.DirFS("copy-of-sys"))                // without notes
//	machine, notes, err := sysfs.Examine(os.DirFS("copy"), cpuset.Set{})
//
// # Files
//
// The files are below devices/system unless stated otherwise.
//
//   - cpu/online, cpu/present, cpu/isolated, cpu/nohz_full, cpu/cpuN/online: the CPUs.
//   - cpu/cpuN/topology/core_cpus_list: the cores. The threads that a CPU lists are its core.
//     core_id is used only where lists are missing or contradict each other, because Linux numbers
//     cores per package or cluster, with gaps, and on some machines per thread.
//   - topology/package_cpus_list and physical_package_id, die_cpus_list and die_id: packages and
//     dies. An id of -1 means that the kernel does not know. Without dies, each package is one die.
//   - cpu/cpuN/cache/indexN: the LLC is the highest-level unified or data cache of level 2 or more.
//     CPUs without one share an LLC per package, die and NUMA node: no information means no
//     preference. Arm core clusters (cluster_cpus_list) are not used; if they share a cache, the
//     cache files show it.
//   - node/online, node/nodeN/{cpulist,distance,meminfo,accessN}: NUMA nodes. If there is no node
//     directory, the kernel has no NUMA support and all CPUs form one node. The CPUs local to a
//     memory-only node are those of its initiators, or else those of the nearest nodes.
//   - devices/cpu_core/cpus and its siblings, cpu_capacity, acpi_cppc, cpufreq: the kinds of core;
//     see kinds.go.
//
// Older kernels use other names for some files, and the oldest have masks instead of lists. These
// are read where the newer files are missing.
//
// Offline CPUs are ignored everywhere, because the kernel leaves stale numbers of them in some
// lists. Ids of cores, LLCs and dies are dense, in the order of the lowest CPU. Packages and NUMA
// nodes keep the kernel's numbers.
//
// # Damage
//
// A file that is missing, unreadable, malformed or contradictory costs what depends on it, and no
// more. The levels form a ladder: CPUs online, cores, packages, dies, NUMA nodes, caches, kinds of
// core. Each is mended from other files (lists from the lists of the other CPUs, then from ids; ids
// from lists), and otherwise left out: a CPU is its own core, the machine one package and one NUMA
// node. Where two levels contradict each other, the earlier one in the ladder is right; of two
// levels of cache, the lower one. Distances default to 10 and 20. Each mended level has a note.
//
// Only a tree that names no CPU is an error, or one with more CPUs than a set holds. CPU hotplug
// during a read looks like damage: if there are notes, read again.
//
// In containers /sys may be virtual (lxcfs). [Host] therefore counts CPUs as online on which the
// kernel runs processes.
//
// # Captures
//
// [Capture] writes the files that are read of a tree as a text archive, and [ParseArchive] reads
// it. The fixtures in testdata are such archives. Some are written by hand, others captured
// (qemu-*, from the virtual machines of test/vm: "make fixtures").
package sysfs
