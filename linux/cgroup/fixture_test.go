package cgroup_test

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgroupstat"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptree"
	"pinfold.dev/pinfold/test/golden"
)

// TestMachines reads each machine in testdata: files below a root directory and, in "want", the
// expected hierarchies and groups.
func TestMachines(t *testing.T) {
	golden.Archives(t, "testdata/*.txtar", "want", func(t *testing.T, archive *txtar.Archive) string {
		t.Parallel()
		root := cgroup.Unpack(t, archive)
		return strings.ReplaceAll(describe(root), root, "")
	})
}

// describe returns the hierarchies and groups below a root as text.
func describe(root string) string {
	var b strings.Builder
	machine, err := cgroup.Open(root)
	if err != nil {
		fmt.Fprintf(&b, "error: %v\n", err)
		if machine, err = cgroup.OpenUsage(root); err != nil {
			return b.String()
		}
	}
	for _, c := range []cgroup.Controller{cgroup.CPU, cgroup.CPUSet, cgroup.CPUAcct} {
		if h := machine.Hierarchy(c); h.Mount != "" {
			fmt.Fprintf(&b, "%s: version %d at %s\n", c, h.Version, h.Mount)
		}
	}
	if err := machine.CheckWritable(); err != nil {
		fmt.Fprintln(&b, "not writable:", err)
	}
	for _, group := range groupsOf(machine) {
		describeGroup(&b, machine, group)
	}
	return b.String()
}

// groupsOf lists the groups in the hierarchy of the cpu controller, without its root.
func groupsOf(machine *cgroup.FS) []string {
	var groups []string
	base := machine.Hierarchy(cgroup.CPU).Mount
	_ = filepath.WalkDir(base, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && name != base {
			groups = append(groups, strings.TrimPrefix(name, base))
		}
		return nil
	})
	slices.Sort(groups)
	return groups
}

func describeGroup(b *strings.Builder, machine *cgroup.FS, group string) {
	fmt.Fprintf(b, "%s\n", group)
	s, err := machine.Read(group)
	if err != nil {
		stat, errStat := cgroupstat.Read(machine, group)
		fmt.Fprintf(b, "  error: %v\n  %+v %v\n", err, stat, errStat)
		return
	}
	quota := "-1"
	if s.Quota != bandwidth.Unlimited {
		quota = fmt.Sprint(s.Quota.Microseconds())
	}
	fmt.Fprintf(b, "  CPUs %q effective %q quota %s period %v burst %v weight %d idle %v",
		s.CPUs, s.Effective, quota, s.Period, s.Burst, s.Weight, s.Idle)
	if s.NoBurst || s.NoIdle {
		fmt.Fprintf(b, " (no burst file: %v, no idle file: %v)", s.NoBurst, s.NoIdle)
	}
	stat, errStat := cgroupstat.Read(machine, group)
	threads, errThreads := cgrouptree.Threads(machine, group)
	fmt.Fprintf(b, "\n  %+v %v\n  threads %v %v\n", stat, errStat, threads, errThreads)
}
