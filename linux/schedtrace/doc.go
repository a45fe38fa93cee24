// Package schedtrace sends the events of the kernel's scheduler about the threads of chosen groups,
// as package blame defines them. Usage:
//
//	t, err := schedtrace.Open(schedtrace.Options{})
//	...
//	defer t.Close()
//	err = t.Set(group, schedtrace.Threads|schedtrace.Quota)
//	start, err := t.Start()
//	err = t.Run(ctx, handle)
//
// It needs root, or CAP_BPF and CAP_PERFMON, and a kernel with type information (BTF,
// CONFIG_DEBUG_INFO_BTF) from 5.14 on; otherwise Open returns a [feature.UnsupportedError]. Nothing
// is changed on the machine. The kernel detaches the programs when the process ends, also after a
// kill.
//
// # Programs
//
// bpf/schedtrace.bpf.c has the programs, and says which tracepoints they are attached to.
// schedtrace.o is compiled from it with "make bpf". The file is not specific to an architecture or
// to a kernel: the loader inserts the offsets of the running kernel's types, and the programs ask
// which fields exist.
//
// # Order
//
// Events of several CPUs arrive almost in the order of their times. [Tracer.Run] holds them back
// for 2 ms and sorts them.
//
// # Loss
//
// The ring buffer has 8 MiB by default, some 130,000 events. When it is full the kernel drops
// events and counts them. Run then sends [blame.Loss], and the states anew of all threads that this
// process can list.
package schedtrace
