package agent

import (
	"fmt"
	"os"
	"testing"
	"time"

	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptree"
	"pinfold.dev/pinfold/test/must"
)

// TestFilesOnThisMachine creates and removes the cgroups of containers while the agent runs. The
// agent keeps files of cgroups open, and must close those of cgroups that are gone.
func TestFilesOnThisMachine(t *testing.T) {
	tree := newHostTree(t)
	_, rest := tree.divide()
	bound := asking("bound")
	run(bound, containerID('a'))
	tree.container(bound, containerID('a'))
	w := tree.world(t, bound)
	w.sampleInterval = 10 * time.Millisecond
	stop := w.start()
	defer stop()
	const groups = 10
	round := func() {
		t.Helper()
		p := newPod("passing")
		tree.make(tree.podGroup(p))
		made := []string{tree.podGroup(p)}
		for i := range groups {
			group := tree.podGroup(p) + "/" + containerID('b'+rune(i))
			tree.make(group)
			made = append(made, group)
		}
		w.eventually(func() error {
			for _, group := range made {
				if s, err := tree.fs.Read(group); err != nil || s.CPUs != rest {
					return fmt.Errorf("%s has CPUs %q, %w", group, s.CPUs, err)
				}
			}
			return nil
		})
		must.Do(t, cgrouptree.Remove(t.Context(), tree.fs, tree.podGroup(p), cgroup.CPU, cgroup.CPUSet, cgroup.CPUAcct))
	}
	const more = 8
	round()
	before := openFiles(t)
	for range more {
		round()
	}
	w.eventually(func() error {
		if after := openFiles(t); after > before+groups {
			return fmt.Errorf("%d files are open after %d groups were created and removed, %d before", after, more*groups, before)
		}
		return nil
	})
}

// openFiles returns the number of files that this process has open.
func openFiles(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}
