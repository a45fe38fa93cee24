package inside

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"syscall"
	"testing"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/test/must"
)

// testFiles reads and writes the files of docs/design.md, section 7, without linux/cgroup.
func testFiles(t *testing.T, m machine) {
	type settings = cgroup.Wanted
	for i, c := range []struct {
		wanted settings
		file   cgroup.File
		want   string
	}{
		{settings{CPUs: set("0,2,4-6")}, cgroup.CPUSetCPUs, "0,2,4-6"},
		{settings{}, cgroup.CPUSetEffectiveV2, "0,2,4-6"},
		{settings{CPUs: set("15")}, cgroup.CPUSetEffectiveV2, "15"},
		{settings{}, cgroup.CPUMax, "max 100000"},
		{settings{Quota: ms(150)}, cgroup.CPUMax, "150000 100000"},
		{settings{}, cgroup.CPUMaxBurst, "0"},
		{settings{Burst: ms(75)}, cgroup.CPUMaxBurst, "75000"},
		{settings{Quota: ms(90), Period: ms(20)}, cgroup.CPUMax, "90000 20000"},
		{settings{}, cgroup.CPUMaxBurst, "75000"}, // not changed by writing cpu.max
		{settings{Quota: ms(-1), Burst: ms(0), Period: ms(100)}, cgroup.CPUMax, "max 100000"},
		{settings{}, cgroup.CPUMaxBurst, "0"},
		{settings{}, cgroup.CPUWeight, "100"},
		{settings{Weight: new(cgroup.Weight(39))}, cgroup.CPUWeight, "39"},
		{settings{}, cgroup.CPUIdle, "0"},
		{settings{Idle: new(true)}, cgroup.CPUIdle, "1"},
		{settings{Idle: new(false), Weight: new(cgroup.Weight(10000))}, cgroup.CPUWeight, "10000"},
	} {
		t.Run(fmt.Sprintf("%d-%s", i, c.file), func(t *testing.T) {
			m.apply(t, map[string]cgroup.Wanted{m.container(): c.wanted})
			if got := raw(t, m.container(), c.file); got != c.want {
				t.Errorf("%s has %q, want %q", c.file, got, c.want)
			}
		})
	}
	t.Run("weight-of-idle", func(t *testing.T) {
		m.apply(t, map[string]cgroup.Wanted{m.pod(): {Idle: new(true)}})
		if err := tryWrite(m.File(m.pod(), cgroup.CPUWeight), "100"); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("a weight for an idle group: %v, want EINVAL", err)
		}
	})
	t.Run("cpu.stat", func(t *testing.T) {
		text := raw(t, m.container(), cgroup.CPUStat)
		for _, name := range []string{"usage_usec", "nr_periods", "nr_throttled", "throttled_usec", "nr_bursts", "burst_usec"} {
			if !strings.Contains("\n"+text, "\n"+name+" ") {
				t.Errorf("no %s in\n%s", name, text)
			}
		}
	})
}

// testCPUSetOrder changes each state of pod and container to each other. After every single write,
// a process in the container must be within the union of its old and new CPUs.
func testCPUSetOrder(t *testing.T, m machine) {
	states := [][2]string{
		{"0-15", "0-15"}, {"0-3", "0-3"}, {"0-7", "2-3"}, {"8-15", "12-15"}, {"2-9", "2,9"}, {"15", "15"}, {"0,15", "0"},
	}
	task := start(t, 1, "sleep", m.container())
	for _, from := range states {
		for _, to := range states {
			m.apply(t, m.cpus(from))
			union := cpuset.MustParse(from[1]).Union(cpuset.MustParse(to[1]))
			for _, w := range m.plan(t, m.cpus(to)) {
				write(t, m.File(w.Path, w.File), w.Value)
				for tid, allowed := range task.allowed(t) {
					if !allowed.IsSubsetOf(union) || allowed.IsEmpty() {
						t.Errorf("from %v to %v: after %s %s = %s thread %d may run on %s, want some of %s",
							from, to, path.Base(w.Path), w.File, w.Value, tid, allowed, union)
					}
				}
			}
			if got := raw(t, m.container(), cgroup.CPUSetEffectiveV2); got != to[1] {
				t.Errorf("from %v to %v: container has %s", from, to, got)
			}
		}
	}
}

func (m machine) cpus(state [2]string) map[string]cgroup.Wanted {
	return map[string]cgroup.Wanted{m.pod(): {CPUs: set(state[0])}, m.container(): {CPUs: set(state[1])}}
}

// plan returns the writes that [cgroup.FS.Apply] would make.
func (m machine) plan(t *testing.T, wanted map[string]cgroup.Wanted) []cgroup.Write {
	t.Helper()
	var changes []cgroup.Change
	for group, w := range wanted {
		present := must.Get(m.Read(group))(t)
		changes = append(changes, cgroup.Change{Path: group, Present: present, Wanted: w})
	}
	return must.Get(cgroup.Plan(m.Layout(), changes))(t)
}
