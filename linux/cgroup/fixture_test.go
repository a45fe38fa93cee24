package cgroup

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"pinfold.dev/pinfold/test/golden"
)

// TestMachines reads each machine in testdata: files below a root directory and, in "want", the
// expected hierarchies and groups.
func TestMachines(t *testing.T) {
	golden.Archives(t, "testdata/*.txtar", "want", func(t *testing.T, given *txtar.Archive) string {
		t.Parallel()
		root := unpack(t, given)
		return strings.ReplaceAll(describe(root), root, "")
	})
}

func unpack(t *testing.T, archive *txtar.Archive) (root string) {
	t.Helper()
	root = t.TempDir()
	for _, f := range archive.Files {
		name := filepath.Join(root, f.Name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// describe returns the hierarchies and groups below a root as text.
func describe(root string) string {
	var b strings.Builder
	machine, err := Open(root)
	if err != nil {
		fmt.Fprintf(&b, "error: %v\n", err)
		if machine, err = OpenUsage(root); err != nil {
			return b.String()
		}
	}
	for _, c := range []Controller{CPU, CPUSet, CPUAcct} {
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
func groupsOf(machine *FS) []string {
	var groups []string
	base := machine.Hierarchy(CPU).Mount
	_ = filepath.WalkDir(base, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && name != base {
			groups = append(groups, strings.TrimPrefix(name, base))
		}
		return nil
	})
	slices.Sort(groups)
	return groups
}

func describeGroup(b *strings.Builder, machine *FS, group string) {
	fmt.Fprintf(b, "%s\n", group)
	s, err := machine.Read(group)
	if err != nil {
		stat, errStat := machine.Stat(group)
		fmt.Fprintf(b, "  error: %v\n  %+v %v\n", err, stat, errStat)
		return
	}
	fmt.Fprintf(b, "  CPUs %q effective %q quota %s period %v burst %v weight %d idle %v",
		s.CPUs, s.Effective, formatQuota(s.Quota), s.Period, s.Burst, s.Weight, s.Idle)
	if s.NoBurst || s.NoIdle {
		fmt.Fprintf(b, " (no burst file: %v, no idle file: %v)", s.NoBurst, s.NoIdle)
	}
	stat, errStat := machine.Stat(group)
	threads, errThreads := machine.Threads(group)
	fmt.Fprintf(b, "\n  %+v %v\n  threads %v %v\n", stat, errStat, threads, errThreads)
}
