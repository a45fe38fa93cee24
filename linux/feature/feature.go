// Package feature lists what only some kernels have, with the least version of Linux and what is
// done without it. An [UnsupportedError] reports that this kernel lacks a feature; callers branch
// on its Feature.
//
//	var missing *feature.UnsupportedError
//	if errors.As(err, &missing) && missing.Feature == feature.Idle { ... }
//
// [Feature.Test] asks the kernel, once in the life of a process. Features of control groups have no
// test of that kind: whoever reads a group finds out, as the root group lacks files that others
// have.
package feature

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// Feature is something that only some kernels have.
type Feature struct {
	Name  string
	Since string // the least version of Linux; "" if the version does not decide
	// Also is what a kernel needs besides the version.
	Also string
	// Instead is what happens without the feature.
	Instead string

	files []string // exist on kernels with the feature
	// off is what the first file begins with while the feature is switched off, and on switches it on.
	off, on string
	once    sync.Once
	err     error // of the test
}

// The features. Their addresses identify them.
var (
	Burst = &Feature{Name: "CPU Burst", Since: "5.14", // f4183717b370 sched/fair: Introduce the burstable CFS controller
		Instead: "containers lose CPU time that they do not use"}
	BurstStatistics = &Feature{Name: "statistics of burst", Since: "5.16", // bcb1704a1ed2 sched/fair: Add cfs bandwidth burst statistics
		Instead: "it is unknown how often bursts are used"}
	Idle = &Feature{Name: "cpu.idle", Since: "5.15", // 304000390f88 sched: Cgroup SCHED_IDLE support
		Instead: "batch pods have the least weight"}
	GroupIdentity = &Feature{Name: "cpu.bvt_warp_ns", Also: "Alibaba Cloud Linux or Anolis OS",
		Instead: "another mechanism puts batch pods behind others"}
	CoreScheduling = &Feature{Name: "core scheduling", Since: "5.14", Also: "built with CONFIG_SCHED_CORE",
		Instead: "batch pods may run on the same cores as online pods"}
	SchedExt = &Feature{Name: "sched_ext", Since: "6.12", Also: "except 7.1, built with CONFIG_SCHED_CLASS_EXT and CONFIG_DEBUG_INFO_BTF",
		Instead: "another mechanism puts batch pods behind others", files: []string{"/sys/kernel/sched_ext/state", "/sys/kernel/btf/vmlinux"}}
	Tracing = &Feature{Name: "tracing of the scheduler", Since: "5.14", Also: "built with CONFIG_DEBUG_INFO_BTF",
		Instead: "waits come from cpu.pressure"}
	// Partitions are cpuset partitions below groups that are not partitions.
	Partitions = &Feature{Name: "remote partitions", Since: "6.7", // 181c8e091aae cgroup/cpuset: Introduce remote partition
		Instead: "processes outside of Kubernetes may run on exclusive CPUs"}
	Pressure = &Feature{Name: "cpu.pressure", Since: "4.20", Also: "built with CONFIG_PSI, and booted with psi=1 where that is off",
		Instead: "waits come from the run delays of threads"}
	RunDelays = &Feature{Name: "/proc/ID/schedstat", Also: "a kernel built with CONFIG_SCHED_INFO",
		Instead: "waits are unknown", files: []string{"/proc/self/schedstat"},
		off: "0 0 0", on: "write 1 to /proc/sys/kernel/task_delayacct, or boot with delayacct"} // proc_pid_schedstat of Linux 7.2
)

// Needs says which kernel has the feature.
func (f *Feature) Needs() string {
	switch {
	case f.Since == "":
		return "use " + f.Also
	case f.Also == "":
		return "use Linux " + f.Since + " or newer"
	}
	return "use Linux " + f.Since + " or newer, " + f.Also
}

// Test returns an UnsupportedError if the kernel that this process runs on lacks the feature. It
// knows nothing of features that are found out in other ways.
func (f *Feature) Test() error {
	f.once.Do(func() { f.err = f.test("/") })
	return f.err
}

func (f *Feature) test(root string) error {
	for _, file := range f.files {
		if _, err := os.Stat(filepath.Join(root, file)); err != nil {
			return &UnsupportedError{Feature: f, Err: err}
		}
	}
	if f.off == "" {
		return nil
	}
	if text, err := os.ReadFile(filepath.Join(root, f.files[0])); err != nil || strings.HasPrefix(string(text), f.off) {
		return &UnsupportedError{Feature: f, What: f.Name + " is switched off", Do: f.on, Err: err}
	}
	return nil
}

// UnsupportedError reports that this kernel lacks a feature, or that this process may not use it.
// It wraps errors.ErrUnsupported.
type UnsupportedError struct {
	Feature *Feature // nil if it is not listed
	What    string   // "" for "the kernel has no FEATURE"
	Do      string   // "" for what the feature needs
	Err     error    // of the kernel, or nil
}

func (e *UnsupportedError) Error() string {
	what, do := e.What, e.Do
	if e.Feature != nil {
		what, do = cmp.Or(what, "the kernel has no "+e.Feature.Name), cmp.Or(do, e.Feature.Needs())
	}
	if e.Err != nil {
		return fmt.Sprintf("%s: %s (%v)", what, do, e.Err)
	}
	return what + ": " + do
}

func (e *UnsupportedError) Unwrap() []error { return []error{errors.ErrUnsupported, e.Err} }
