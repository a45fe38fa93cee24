package cgroup

import "pinfold.dev/pinfold/core/cpuset"

// everything stands for the empty cpuset of version 2, which means all of the
// parent's CPUs.
func everything() cpuset.Set { return cpuset.Range(0, cpuset.MaxCPUs-1) }

// moving is a group's CPUs on the way.
type moving struct{ now, target cpuset.Set }

// cpusets plans cpuset.cpus. Invariant of version 1: now is a subset of the
// parent's now, before and after each write.
func (t *tree) cpusets(l Layout) []Write {
	state := make(map[*node]*moving, len(t.nodes))
	mask := func(s cpuset.Set) cpuset.Set {
		if l.CPUSet == V2 && s.IsEmpty() {
			return everything()
		}
		return s
	}
	for _, n := range t.nodes {
		state[n] = &moving{mask(n.Present.CPUs), mask(n.Target().CPUs)}
	}
	var writes []Write
	write := func(n *node, s cpuset.Set) {
		state[n].now = s
		if s == everything() {
			s = cpuset.Set{}
		}
		writes = append(writes, Write{Path: n.Path, File: CPUSetCPUs, Value: s.String()})
	}
	childrenWithin := func(n *node, s cpuset.Set) bool {
		for _, c := range n.children {
			if !state[c].now.IsSubsetOf(s) {
				return false
			}
		}
		return true
	}
	for n := range t.bottomUp { // give up
		if m := state[n]; m.now != m.target && m.target.IsSubsetOf(m.now) && childrenWithin(n, m.target) {
			write(n, m.target)
		}
	}
	for _, n := range t.nodes { // widen
		switch m := state[n]; {
		case m.target.IsSubsetOf(m.now):
		case childrenWithin(n, m.target):
			write(n, m.target)
		default:
			write(n, m.now.Union(m.target))
		}
	}
	for n := range t.bottomUp { // narrow
		if m := state[n]; m.now != m.target {
			write(n, m.target)
		}
	}
	return writes
}
