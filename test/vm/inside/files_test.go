package inside

import (
	"path"
	"testing"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/test/must"
)

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
			if got := must.Get(m.Effective(m.container()))(t); got != cpuset.MustParse(to[1]) {
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
