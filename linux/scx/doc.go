// Package scx schedules batch work by a scheduler in BPF (sched_ext), below everything else that
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
// takes one of these only when its fair class has nothing to run, so whatever else wakes up on the
// CPU preempts it. Any thread may give itself this policy; it is then behind all others, too.
//
// When the process ends, or the kernel ends the scheduler because of an error ([Scheduler.Ended]),
// its threads run in the fair class, with the settings of their control groups.
//
// It needs Linux with CONFIG_SCHED_CLASS_EXT and BTF, CAP_BPF and CAP_PERFMON to load it, and
// CAP_SYS_NICE to turn threads over. The programs call functions of the kernel whose names and
// parameters change. They know those of Linux 6.12 to 7.3 (bpf/kfuncs.h), except 7.1, which
// describes some with one parameter more.
//
// # Programs
//
// bpf/scx.bpf.c has the programs, scx.o is compiled from it with "make bpf". Each pod has a queue,
// in the order of what its threads have run (virtual time). A CPU takes a thread of the pod that
// has run least for its weight.
//
// A timer refills the budget every 10 ms. The budget may be overdrawn by a tick of each CPU, which
// is taken from the next refills. Every 50 ms it looks for threads that have waited for MaxWait, or
// that are dying, and moves these to a queue that every CPU serves first.
//
// A program at sched_switch knows which CPUs run other work. When that begins on a core, it
// interrupts batch work on the core's other CPUs. Programs at sched_wakeup make batch work give up
// a CPU when another thread has to wait behind other work: the kernel's fair class takes a CPU that
// runs SCHED_EXT for busy, and puts nothing there.
//
// See Documentation/scheduler/sched-ext.rst and kernel/sched/ext.c of Linux 6.12
// and 7.2.
package scx
