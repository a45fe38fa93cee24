// Package sysfs reads a [topology.Machine] from a /sys tree: the host's, or a
// captured one.
//
// What is read, below devices/system unless said otherwise, and what it decides:
//
//   - cpu/online, cpu/present, cpu/isolated, cpu/cpuN/online: the CPUs.
//   - cpu/cpuN/topology/core_cpus_list: the cores. Linux numbers cores per
//     package, with gaps, and on some machines per thread, so core_id is not
//     looked at: the threads that a CPU lists are its core.
//   - topology/package_cpus_list and physical_package_id, die_cpus_list and
//     die_id: packages and dies. An id of -1 means that the kernel does not know;
//     without dies each package is one.
//   - cpu/cpuN/cache/indexN: the LLC is the highest-level unified or data cache of
//     level 2 or more. CPUs for which none is listed share one per package, die
//     and NUMA node: no information means no preference. Clusters of Arm cores
//     (cluster_cpus_list) are not looked at; where they share a cache, the cache
//     says so.
//   - node/online, node/nodeN/{cpulist,distance,meminfo,accessN}: NUMA nodes. No
//     node directory at all means a kernel without NUMA: one node of all CPUs.
//     The CPUs local to a node of memory only are those of its initiators, else
//     those of the nearest nodes.
//   - devices/cpu_core/cpus and its siblings, cpu_capacity, acpi_cppc, cpufreq:
//     the kinds of core; see kinds.go.
//
// Older kernels call some files by other names, and the oldest have masks instead
// of lists; these are read where the newer ones are missing.
//
// CPUs that are not online count nowhere: the kernel leaves stale numbers of
// them in some lists. Ids of cores, LLCs and dies are dense, in the order of the
// lowest CPU; packages and NUMA nodes keep the kernel's numbers.
//
// Files that cannot be read, make no sense or contradict each other are errors
// that name them; contradictions wrap [topology.ErrInconsistent]. CPU hotplug
// during a read looks like a contradiction: read again.
//
// [Capture] writes what is read of a tree as a text archive, and [ParseArchive]
// reads it. The fixtures in testdata are such archives, some written by hand, some
// captured (qemu-*, from the virtual machines of test/vm: "make fixtures").
package sysfs
