// Package runqueue tells for how long threads of each group were ready to run on a CPU and did not
// run, and behind whom. It looks at every CPU a hundred times a second, so its cost depends neither
// on how often the CPUs switch between threads nor on the number of groups. Usage:
//
//	s, err := runqueue.Open()
//	...
//	defer s.Close()
//	for range time.Tick(10 * time.Second) {
//		waits, err := s.Read()
//		...
//	}
//
// It needs root, or CAP_BPF and CAP_PERFMON, and a kernel with type information (BTF,
// CONFIG_DEBUG_INFO_BTF) from 5.14 on; otherwise Open returns a [feature.UnsupportedError]. Nothing is
// changed on the machine. The kernel removes program and timers when the process ends, also after a
// kill.
//
// # What is counted
//
// A group waits on a CPU while at least one of its threads is in the CPU's queue and another thread
// runs. That counts once, however many of its threads wait there, as only one could run. On several
// CPUs at once it counts for each, so times are in CPU seconds. Threads that are throttled do not
// count: the kernel counts their time itself (throttled_usec in cpu.stat). Nor do threads in the
// classes deadline, real-time and sched_ext, but others wait behind them.
//
// # Error
//
// The samples of a CPU are [Period] apart, which is no part of the periods in which the kernel
// refills quotas or of its ticks, so that samples do not stay at one place in them. If a group has
// waited for a time T, the standard deviation of what is counted is about √(T × Period), if it waits in
// many short pieces, and less otherwise: 32 ms for 0.1 s, 0.3 s for 10 s.
//
// A sample that is taken too late was due while the CPU could not be interrupted, or while the
// hypervisor ran something else. What waited or ran is then counted as behind the machine. A CPU that is
// idle without ticks is not sampled for as long as that, and what it misses is not counted.
package runqueue
