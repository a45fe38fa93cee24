package nodeplan

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/placement"
)

// TestNoCPUIsEnforcedForTwo: every container has online CPUs, and those of a static container are
// in no cpuset of another container that runs at the same time.
func TestNoCPUIsEnforcedForTwo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawState(t)
		d := Plan(s)
		if s.BindingOff != "" {
			checkUnbound(t, d)
			return
		}
		online := s.Index.Machine().Balanced().Union(d.Exclusive)
		if d.Exclusive.Intersects(d.Shared) || d.Exclusive.Union(d.Shared) != online {
			t.Fatalf("exclusive %s, shared %s, online %s", d.Exclusive, d.Shared, online)
		}
		for i, p := range d.Pods {
			for _, c := range p.Containers {
				if c.CPUs.IsEmpty() || !c.CPUs.IsSubsetOf(online) {
					t.Fatalf("%s/%s has CPUs %q of %s", p.ID, c.Name, c.CPUs, online)
				}
				if c.Home != HomeExclusive && !c.CPUs.IsSubsetOf(d.Shared) {
					t.Fatalf("%s/%s has CPUs %s, shared are %s", p.ID, c.Name, c.CPUs, d.Shared)
				}
				if c.Home == HomeExclusive && !c.CPUs.IsSubsetOf(d.Exclusive) {
					t.Fatalf("%s/%s has CPUs %s, exclusive are %s", p.ID, c.Name, c.CPUs, d.Exclusive)
				}
				if !c.CPUs.IsSubsetOf(p.CPUs) {
					t.Fatalf("%s/%s has CPUs %s, its pod %s", p.ID, c.Name, c.CPUs, p.CPUs)
				}
				for j, other := range d.Pods {
					if j < i {
						checkApart(t, c, other)
					}
					if j != i && c.Home == HomeExclusive && c.CPUs.Intersects(other.CPUs) {
						t.Fatalf("%s/%s has CPUs %s, and pod %s %s", p.ID, c.Name, c.CPUs, other.ID, other.CPUs)
					}
				}
			}
			checkPhases(t, s.Pods[i], p)
		}
	})
}

func checkUnbound(t *rapid.T, d Desired) {
	for _, p := range d.Pods {
		for _, c := range p.Containers {
			if !c.CPUs.IsEmpty() || !p.CPUs.IsEmpty() {
				t.Fatalf("%s/%s has CPUs %s though binding is off", p.ID, c.Name, c.CPUs)
			}
		}
	}
}

func checkApart(t *rapid.T, c ContainerSettings, other PodSettings) {
	for _, o := range other.Containers {
		if (c.Home == HomeExclusive || o.Home == HomeExclusive) && c.CPUs.Intersects(o.CPUs) {
			t.Fatalf("%s (%s, %s) and %s/%s (%s, %s) have CPUs in common", c.Name, c.Home, c.CPUs, other.ID, o.Name, o.Home, o.CPUs)
		}
	}
}

// checkPhases checks that within a pod only containers that never run at the same time have the
// same exclusive CPUs, except for those that run on the CPUs of their pod instead of a quota.
func checkPhases(t *rapid.T, p Pod, settings PodSettings) {
	for i, c := range settings.Containers {
		for _, before := range settings.Containers[:i] {
			together := p.container(before.Name).Role.RunsWith(p.container(c.Name).Role) && !sharesItsPods(&p, c.Name) && !sharesItsPods(&p, before.Name)
			if together && c.Home == HomeExclusive && before.Home == HomeExclusive && c.CPUs.Intersects(before.CPUs) {
				t.Fatalf("%s: %+v and %+v run together on the same CPUs", p.ID, before, c)
			}
		}
	}
}

// sharesItsPods reports whether a container may run on the CPUs of its pod, beside their
// containers.
func sharesItsPods(p *Pod, name string) bool {
	c := p.container(name)
	return !claimed(p, name) && c.Limit == 0 && (c.Ephemeral || p.Limit > 0)
}

// TestPlanningAgainChangesNothing: a plan does not depend on the order of pods, and planning again
// from its result changes nothing.
func TestPlanningAgainChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawState(t)
		first := Plan(s)
		shuffled := s
		shuffled.Pods = rapid.Permutation(s.Pods).Draw(t, "order")
		if diff := cmp.Diff(first.CoreSets, Plan(shuffled).CoreSets, cmp.Comparer(equalSets)); diff != "" {
			t.Fatalf("in another order of pods:\n%s", diff)
		}
		s.Previous = first.CoreSets
		if diff := cmp.Diff(first, Plan(s), cmp.Comparer(equalSets)); diff != "" {
			t.Fatalf("planning again changes the plan:\n%s", diff)
		}
	})
}

func equalSets(a, b cpuset.Set) bool { return a == b }

// TestCoreSets: a core set is within its region and large enough, and sets intersect only if
// disjoint ones are impossible. By the marriage theorem, disjoint sets exist if every group of
// containers has enough CPUs together.
func TestCoreSets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawState(t)
		s.BindingOff = ""
		d := Plan(s)
		longRunning := longRunningOf(t, s, d)
		var all cpuset.Set
		disjoint := true
		for _, r := range longRunning {
			disjoint = disjoint && !r.set.Intersects(all)
			all = all.Union(r.set)
		}
		room := true
		for group := range 1 << len(longRunning) {
			need, together := 0, cpuset.Set{}
			for i, r := range longRunning {
				if group>>i&1 == 1 {
					need += r.need
					together = together.Union(r.region)
				}
			}
			room = room && need <= together.Len()
		}
		if room != disjoint {
			t.Fatalf("room for disjoint sets is %v, sets are disjoint: %v\n%s", room, disjoint, printSets(d))
		}
		overlap := slices.ContainsFunc(d.Findings, func(f Finding) bool { return f.Kind == CoreSetsOverlap })
		if overlap == disjoint {
			t.Fatalf("sets are disjoint: %v, reported: %v", disjoint, overlap)
		}
	})
}

// longRunningOf finds the long-running static-burst containers independently of the planner, and
// checks each set.
func longRunningOf(t *rapid.T, s State, d Desired) (longRunning []burster) {
	m := s.Index.Machine()
	for i, p := range d.Pods {
		for _, c := range p.Containers {
			if c.Home != HomeCoreSet {
				continue
			}
			at := slices.IndexFunc(s.Pods[i].Claim.Containers, func(claim ledger.ContainerClaim) bool { return claim.Name == c.Name })
			claim := s.Pods[i].Claim.Containers[at]
			r := burster{set: c.CPUs, ref: Ref{p.ID, c.Name}}
			for _, id := range claim.NUMANodes {
				r.region = r.region.Union(m.CPUsOfNUMA(id).Intersection(d.Shared))
			}
			r.need = min(claim.Limit, r.region.Len())
			if claim.Policy != placement.StaticBurst || r.set.Len() < r.need || !r.set.IsSubsetOf(r.region) {
				t.Fatalf("%s/%s, %+v, has core set %s of region %s", p.ID, c.Name, claim, r.set, r.region)
			}
			if claim.Role != ledger.RoleInit {
				longRunning = append(longRunning, r)
			}
		}
	}
	return longRunning
}

// TestSetsMoveAtABoundedRate: with a new sample, and nothing else changed, a set gains and loses at
// most one core.
func TestSetsMoveAtABoundedRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawState(t)
		s.BindingOff = ""
		s.Previous = Plan(s).CoreSets
		drawUsage(t, &s)
		s.Usage.Sequence += 7
		cores := func(cpus cpuset.Set) (n int) {
			for _, core := range s.Index.Machine().Cores() {
				if core.CPUs.Intersects(cpus) {
					n++
				}
			}
			return n
		}
		for ref, set := range Plan(s).CoreSets.Sets {
			before := s.Previous.Sets[ref]
			if cores(set.Difference(before)) > 1 || cores(before.Difference(set)) > 1 {
				t.Fatalf("%v moved from %s to %s", ref, before, set)
			}
		}
	})
}

// TestSetsComeToRest: while the other load is constant and the containers use their own sets, the
// sets stop moving.
func TestSetsComeToRest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawState(t)
		s.BindingOff = ""
		for i := range s.Pods {
			for j := range s.Pods[i].Containers {
				s.Pods[i].Containers[j].Used = 0
			}
		}
		background := s.Usage.Busy
		const rounds = 200
		for range rounds {
			s.Usage.Sequence++
			s.Usage.Busy = map[cpuset.CPU]ledger.MilliCPU{}
			for c, busy := range background {
				s.Usage.Busy[c] = busy
			}
			useSets(&s)
			d := Plan(s)
			still := cmp.Equal(d.CoreSets.Sets, s.Previous.Sets, cmp.Comparer(equalSets))
			s.Previous = d.CoreSets
			if still {
				return
			}
		}
		t.Fatalf("after %d samples of the same load sets still move", rounds)
	})
}

// useSets adds half a CPU of usage by the container itself to every CPU of its set.
func useSets(s *State) {
	for i := range s.Pods {
		for j := range s.Pods[i].Containers {
			c := &s.Pods[i].Containers[j]
			c.Used = 0
			for cpu := range s.Previous.Sets[Ref{s.Pods[i].ID, c.Name}].All() {
				c.Used += 500
				s.Usage.Busy[cpu] += 500
			}
		}
	}
}

// TestStepsNeverShareExclusiveCPUs follows the steps from one plan to the next one, for which pods
// have changed.
func TestStepsNeverShareExclusiveCPUs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawState(t)
		s.BindingOff = ""
		first := Plan(s)
		s.Previous = first.CoreSets
		m := s.Index.Machine()
		for i := range s.Pods {
			if rapid.IntRange(0, 2).Draw(t, "change") == 2 {
				s.Pods[i] = drawPod(t, m, s.Pods[i].ID, false)
			}
		}
		second := Plan(s)
		follow(t, first.Assignments(), second.Assignments(), second.Shared)
	})
}

// TestStepsOfExchanges follows the steps of pods that exchange exclusive CPUs.
func TestStepsOfExchanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cpus := rapid.Permutation([]cpuset.CPU{0, 1, 2, 3, 4, 5, 6, 7}).Draw(t, "before")
		after := rapid.Permutation(cpus[1:]).Draw(t, "after")
		shared := cpuset.Of(cpus[0])
		var from, to []Assignment
		for i := 0; len(after) > 0; i++ {
			n, ref := rapid.IntRange(1, len(after)).Draw(t, "number"), Ref{ledger.PodID(fmt.Sprint(i)), "app"}
			from = append(from, Assignment{ref, cpuset.Of(cpus[1 : 1+n]...), true})
			to = append(to, Assignment{ref, cpuset.Of(after[:n]...), true})
			cpus, after = cpus[n:], after[n:]
		}
		follow(t, from, to, shared)
	})
}

// follow executes the steps one by one and checks that no container gets a CPU that another pod has
// exclusively, or gets a CPU exclusively that another pod still has.
func follow(t *rapid.T, from, to []Assignment, shared cpuset.Set) {
	final, had := byRef(to), byRef(from)
	now := map[Ref]cpuset.Set{} // containers that end have left; new ones come with their step
	for ref, a := range had {
		if _, stays := final[ref]; stays {
			now[ref] = a.CPUs
		}
	}
	own := func(ref Ref) (cpus cpuset.Set) { // one that gives way has others meanwhile
		for _, a := range []Assignment{had[ref], final[ref]} {
			if a.Exclusive && final[ref].Exclusive {
				cpus = cpus.Union(a.CPUs)
			}
		}
		return cpus.Difference(shared)
	}
	all := Steps(from, to, shared)
	for _, step := range all {
		gained := step.CPUs.Difference(now[step.Ref])
		for other, its := range now {
			both := gained.Intersection(its)
			if other.Pod != step.Ref.Pod && !shared.IsEmpty() && both.Intersects(own(step.Ref).Union(own(other))) {
				t.Fatalf("%v gets %s while %v has %s\nfrom %v\nto %v\nsteps %v", step.Ref, gained, other, its, from, to, all)
			}
		}
		if step.CPUs.IsEmpty() {
			t.Fatalf("%v gets no CPU", step.Ref)
		}
		now[step.Ref] = step.CPUs
	}
	for ref, a := range final {
		if now[ref] != a.CPUs {
			t.Fatalf("%v ends with %s, not %s", ref, now[ref], a.CPUs)
		}
	}
}

func byRef(all []Assignment) map[Ref]Assignment {
	found := map[Ref]Assignment{}
	for _, a := range all {
		found[a.Ref] = a
	}
	return found
}

// TestStepsFreeCPUsFirst: "late" has been made by the runtime without asking, and holds all CPUs.
// So no CPU is free, and what "waits" gets must be freed by "leaves" before: that may fail.
func TestStepsFreeCPUsFirst(t *testing.T) {
	at := func(pod, cpus string, exclusive bool) Assignment {
		return Assignment{Ref{ledger.PodID(pod), "app"}, cpuset.MustParse(cpus), exclusive}
	}
	from := []Assignment{at("waits", "4-5", false), at("late", "0-5", false), at("leaves", "2", true)}
	to := []Assignment{at("waits", "2", true), at("late", "4", true), at("leaves", "3", true)}
	want := []string{"late 4", "leaves 3", "waits 2"}
	var got []string
	for _, s := range Steps(from, to, cpuset.Of(0, 1)) {
		got = append(got, string(s.Ref.Pod)+" "+s.CPUs.String())
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
