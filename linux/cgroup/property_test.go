package cgroup

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/test/must"
)

// TestPlanIsAccepted checks each write of random plans with the model kernel: none is rejected or
// without effect, all together lead to the wanted settings, and a second plan is empty. No group
// ever runs on a CPU that it neither had nor gets.
func TestPlanIsAccepted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := Layout{rapid.SampledFrom([]Version{V1, V2}).Draw(t, "cpu"), rapid.SampledFrom([]Version{V1, V2}).Draw(t, "cpuset")}
		paths := drawPaths(t)
		k := &kernel{layout: l, groups: drawState(t, l, paths, "present"), corrupts: rapid.Bool().Draw(t, "corrupts")}
		if err := k.broken(); err != nil {
			t.Fatalf("the present state is not valid: %v", err)
		}
		goal := &kernel{layout: l, groups: drawState(t, l, paths, "wanted")}
		before := &kernel{layout: l, groups: maps.Clone(k.groups)}
		changes := changesTo(t, k.groups, goal)
		writes := must.Get(Plan(l, changes))(t)
		for i, w := range writes {
			if err := k.do(w); err != nil {
				t.Fatalf("write %d of %d: %s: %v\n%s", i+1, len(writes), w.text(), err, listed(writes))
			}
			for p := range k.groups {
				if may := mayRunOn(before, goal, p); !k.effective(p).IsSubsetOf(may) {
					t.Fatalf("after %s: %s runs on %s, had and gets %s\n%s", w.text(), p, k.effective(p), may, listed(writes))
				}
			}
		}
		for p, want := range goal.groups {
			if k.groups[p] != want {
				t.Fatalf("%s has %+v, want %+v\n%s", p, k.groups[p], want, listed(writes))
			}
		}
		for i := range changes {
			changes[i].Present = k.groups[changes[i].Path]
		}
		if again, err := Plan(l, changes); err != nil || len(again) > 0 {
			t.Fatalf("planned again: %v, %s", err, listed(again))
		}
	})
}

// mayRunOn returns the CPUs that a group has before or after. A group without CPUs of its own,
// before or after, follows its parent.
func mayRunOn(before, goal *kernel, p string) cpuset.Set {
	had, ok := before.groups[p]
	if !ok {
		return before.effective(p)
	}
	may := before.effective(p).Union(goal.effective(p))
	if before.layout.CPUSet == V2 && (had.CPUs.IsEmpty() || goal.groups[p].CPUs.IsEmpty()) {
		may = may.Union(mayRunOn(before, goal, path.Dir(p)))
	}
	return may
}

func listed(writes []Write) string {
	var s string
	for _, w := range writes {
		s += w.text() + "\n"
	}
	return s
}

func drawPaths(t *rapid.T) []string {
	paths := []string{"/kubepods"}
	for pod := range rapid.IntRange(1, 3).Draw(t, "pods") {
		p := fmt.Sprintf("/kubepods/pod%d", pod)
		paths = append(paths, p)
		for c := range rapid.IntRange(0, 3).Draw(t, "containers") {
			paths = append(paths, fmt.Sprintf("%s/c%d", p, c))
		}
	}
	return paths
}

// drawState draws settings that are valid together.
func drawState(t *rapid.T, l Layout, paths []string, label string) map[string]Settings {
	k := &kernel{layout: l, groups: map[string]Settings{}}
	for _, p := range paths {
		s := Settings{Limits: bandwidth.Limits{Quota: bandwidth.Unlimited, Period: 100 * time.Millisecond}}
		for c := range k.effective(path.Dir(p)).All() {
			if rapid.Bool().Draw(t, label) {
				s.CPUs.Add(c)
			}
		}
		s.Period = time.Duration(rapid.SampledFrom([]int{1, 10, 50, 100, 1000}).Draw(t, "period")) * time.Millisecond
		quota := time.Duration(rapid.IntRange(1000, 4e6).Draw(t, "quota")) * time.Microsecond
		s.Burst = time.Duration(rapid.IntRange(0, 1000).Draw(t, "burst")) * quota / 1000 / time.Microsecond * time.Microsecond
		s.Weight = map[Version]Weight{V1: 1024, V2: 100}[l.CPU] >> rapid.IntRange(0, 1).Draw(t, "weight")
		if s.Idle = rapid.Bool().Draw(t, "idle"); s.Idle {
			s.Weight = map[Version]Weight{V1: 3, V2: 0}[l.CPU]
		}
		k.groups[p] = s
		if rapid.Bool().Draw(t, "limited") {
			s.Quota = quota
			k.groups[p] = s
			if k.broken() != nil { // above the limit of a group above
				s.Quota = bandwidth.Unlimited
				k.groups[p] = s
			}
		}
	}
	return k.groups
}

// changesTo wants all or some of the goal's settings, and removes the others from the goal.
func changesTo(t *rapid.T, present map[string]Settings, goal *kernel) []Change {
	var changes []Change
	cpus, bandwidth := rapid.Bool().Draw(t, "all CPUs"), rapid.Bool().Draw(t, "all bandwidth")
	for _, p := range slices.Sorted(maps.Keys(goal.groups)) {
		g, had := goal.groups[p], present[p]
		w := Wanted{Idle: &g.Idle}
		if !g.Idle {
			w.Weight = &g.Weight
		}
		if cpus {
			w.CPUs = &g.CPUs
		} else {
			g.CPUs = had.CPUs
		}
		if bandwidth {
			w.Quota, w.Period, w.Burst = &g.Quota, &g.Period, &g.Burst
		} else {
			g.Quota, g.Period, g.Burst = had.Quota, had.Period, had.Burst
		}
		goal.groups[p] = g
		changes = append(changes, Change{Path: p, Present: had, Wanted: w})
	}
	return rapid.Permutation(changes).Draw(t, "order")
}

// TestInvalidIsOmitted wants settings of two states at random, which contradict each other. The
// kernel accepts the plan without the invalid ones.
func TestInvalidIsOmitted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := Layout{V1, V1}
		paths := drawPaths(t)
		k := &kernel{layout: l, groups: drawState(t, l, paths, "present")}
		one, other := drawState(t, l, paths, "one"), drawState(t, l, paths, "other")
		var changes []Change
		for i, p := range paths {
			g := one[p]
			if rapid.Bool().Draw(t, "other") {
				g = other[p]
			}
			c := Change{Path: p, Present: k.groups[p], Wanted: Wanted{CPUs: &g.CPUs, Quota: &g.Quota, Period: &g.Period, Burst: &g.Burst}}
			if i > 0 && rapid.Bool().Draw(t, "nothing wanted") {
				c.Wanted = Wanted{}
			}
			changes = append(changes, c)
		}
		invalid := findInvalid(l, changes)
		writes, err := Plan(l, changes)
		if (err != nil) != (len(invalid) > 0) {
			t.Fatalf("error %v, invalid %v", err, invalid)
		}
		for _, w := range writes {
			if invalid[w.Path] != nil {
				t.Fatalf("%s is written but not valid: %v", w.text(), invalid[w.Path])
			}
			if err := k.do(w); err != nil {
				t.Fatalf("%s: %v\n%s", w.text(), err, listed(writes))
			}
		}
		for _, c := range changes {
			if got := k.groups[c.Path]; invalid[c.Path] == nil && got != c.Target() {
				t.Fatalf("%s has %+v, want %+v", c.Path, got, c.Target())
			}
		}
	})
}
