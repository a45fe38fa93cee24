// Package cgroupstat reads what the kernel has counted for cgroups: CPU time, throttling, bursts
// and waits. [Read] reads a group once; a [Reader] reads it repeatedly.
//
//	stat, err := cgroupstat.Read(fs, group)
package cgroupstat
