// Package sysfs reads a [topology.Machine] from a /sys tree, the host's or a captured one.
//
//	machine, err := sysfs.Read(os.DirFS("/sys"))
//
// # Files
//
// The files are below devices/system unless stated otherwise.
//
//   - cpu/online, cpu/present, cpu/isolated, cpu/cpuN/online: the CPUs.
//   - cpu/cpuN/topology/core_cpus_list: the cores. The threads that a CPU lists are its core.
//     core_id is not used, because Linux numbers cores per package, with gaps, and on some machines
//     per thread.
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
// # Errors
//
// Files that are unreadable, malformed or contradictory are errors that name the file.
// Contradictions wrap [topology.ErrInconsistent]. CPU hotplug during a read looks like a
// contradiction: read again.
//
// # Captures
//
// [Capture] writes the files that are read of a tree as a text archive, and [ParseArchive] reads
// it. The fixtures in testdata are such archives. Some are written by hand, others captured
// (qemu-*, from the virtual machines of test/vm: "make fixtures").
package sysfs
