// Package sysfs reads a [topology.Machine] from a /sys tree, the host's or a captured one.
//
//	machine, notes, err := sysfs.Host(cpuset.Set{})                    // this machine
//	machine, err := sysfs.Read(os.DirFS("copy-of-sys"))                // without notes
//	machine, notes, err := sysfs.Examine(os.DirFS("copy"), cpuset.Set{})
//
//	level            files below /sys/devices/system                            read by
//	CPUs online      cpu/{online,present,isolated,nohz_full}, cpu/cpuN/online   cpu.go
//	cores            cpu/cpuN/topology/core_cpus_list, or else ids              cpu.go
//	packages, dies   topology/{package,die}_cpus_list, or else ids              cpu.go
//	NUMA nodes       node/online, node/nodeN/{cpulist,distance,meminfo,accessN} node.go
//	LLCs             cpu/cpuN/cache/indexN                                      cache.go
//	kinds of core    /sys/devices/cpu_core/cpus, cpu_capacity, cpufreq, ...     kinds.go
//
// Older kernels use other names for some files, and the oldest have masks instead of lists. These
// are read where the newer files are missing. Offline CPUs are ignored everywhere, because the
// kernel leaves stale numbers of them in some lists. Ids of cores, LLCs and dies are dense, in the
// order of the lowest CPU. Packages and NUMA nodes keep the kernel's numbers.
//
// A file that is missing, unreadable, malformed or contradictory costs what depends on it, and no
// more. Each level is mended from other files (lists from the lists of the other CPUs, then from
// ids; ids from lists), and otherwise left out: a CPU is its own core, the machine one package and
// one NUMA node. Where two levels contradict each other, the earlier one in the table is right; of
// two levels of cache, the lower one. Distances default to 10 and 20. Each mended level has a
// note, except where a file is missing that the kernel leaves out if it does not know.
// Only a tree that names no CPU is an error, or one with more CPUs than a set holds.
//
// In containers /sys may be virtual (lxcfs). [Host] therefore counts CPUs as online on which the
// kernel runs processes.
//
// [Capture] writes the files that are read of a tree as a text archive, and [ParseArchive] reads
// it. The fixtures in testdata are such archives. Some are written by hand, others captured
// (qemu-*, from the virtual machines of test/vm: "make fixtures").
package sysfs
