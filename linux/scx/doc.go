// Package scx schedules batch work with a scheduler in BPF (sched_ext), below everything else that
// the machine runs. Usage:
//
//	s, err := scx.Load(scx.Options{})
//	...
//	defer s.Close()
//	err = s.SetMachine(machine)
//	err = s.Attach()
//	err = s.SetPods(pods)
//	_, err = scx.TurnOver(groups, paths)
//
// It runs the threads whose policy is SCHED_EXT, and no others (SCX_OPS_SWITCH_PARTIAL). The kernel
// runs such a thread only while its fair class has nothing to run on the CPU. Any thread that wakes
// up there preempts it. A thread needs no privilege to take this policy: it puts itself behind all
// others.
//
// When the process ends, or the kernel ends the scheduler because of an error ([Scheduler.Ended]),
// the threads run in the fair class, with the settings of their control groups. The kernel waits
// for a grace period of RCU before. If other work uses every CPU all the time, a thread that it has
// interrupted in a read-side critical section delays that, with any scheduler. Since Linux 7.0 the
// kernel keeps 5% of each CPU for SCHED_EXT, which suffices.
//
// # Requirements
//
// The kernel needs CONFIG_SCHED_CLASS_EXT and BTF. The process needs CAP_BPF and CAP_PERFMON to
// load the programs, and CAP_SYS_NICE to turn threads over. The programs call functions of the
// kernel whose names and parameters change. They know those of Linux 6.12 to 7.3 (bpf/kfuncs.h),
// except 7.1, whose type information describes some functions with one parameter more.
//
// # Programs
//
// bpf/scx.bpf.c describes the algorithm at its head, and "make bpf" compiles it to scx.o. Start
// reading there. layout.go has the Go side of its types.
//
// Sources: Documentation/scheduler/sched-ext.rst and kernel/sched/ext.c of Linux 6.12 and 7.2.
package scx
