package ledger

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/core/topology/topologytest"
)

// world is a random node with random claims.
type world struct {
	machine *topology.Machine
	index   *placement.Index
	config  Config
	claims  []Claim
}

func (w *world) books() *Books { return New(w.index, w.config, w.claims...) }

func (w *world) reference() *reference { return newReference(w.machine, w.config, w.claims) }

// drawWorld draws a node, half of the time one whose unions of confinements bind.
func drawWorld(t *rapid.T, most int) *world {
	if rapid.Bool().Draw(t, "unions") {
		return drawUnions(t)
	}
	return drawAnyClaims(t, most)
}

// drawUnions draws a node on which unions of confinements bind: it has small NUMA nodes, and
// requests that are confined to several of them and just fit.
func drawUnions(t *rapid.T) *world {
	nodes := rapid.IntRange(3, 5).Draw(t, "numaNodes")
	w := &world{machine: topology.Shape{NUMAPerPackage: nodes, CoresPerLLC: 10 / nodes}.MustBuild()}
	w.index = placement.NewIndex(w.machine)
	for i := range rapid.IntRange(2, 7).Draw(t, "pods") {
		var ids []topology.NUMAID
		first := rapid.IntRange(0, nodes-1).Draw(t, "node")
		for n := range rapid.SampledFrom([]int{1, 2, 2, 2, 3}).Draw(t, "several") {
			ids = append(ids, topology.NUMAID((first+n*rapid.IntRange(1, nodes-1).Draw(t, "stride"))%nodes))
		}
		c := Claim{ID: PodID(fmt.Sprintf("pod%d", i)), Containers: []ContainerClaim{{Name: "main", Policy: placement.StaticBurst,
			Limit: 1, Request: rapid.SampledFrom([]MilliCPU{1, 500, 700, 1000, 1500}).Draw(t, "request"), NUMANodes: ids}}}
		w.claims = append(w.claims, c)
		if d := w.reference().debts(); d.worse(debts{}) && rapid.IntRange(0, 2).Draw(t, "overflow") > 0 {
			w.claims = w.claims[:len(w.claims)-1]
		}
	}
	return w
}

// drawAnyClaims draws a node with claims, some of which collide, are invalid or violate the rules.
func drawAnyClaims(t *rapid.T, most int) *world {
	w := &world{machine: topologytest.RandomUpTo(t, most)}
	w.index = placement.NewIndex(w.machine)
	w.config = Config{
		Reserved:  drawMilli(t, "reserved"),
		MinShared: rapid.SampledFrom([]int{0, 0, 1, 1, 2, 5}).Draw(t, "minShared"),
	}
	if rapid.IntRange(0, 2).Draw(t, "reserve") == 2 {
		w.config.ReservedCPUs = topologytest.Subset(t, w.machine.Online(), "reservedCPUs")
	}
	for i := range rapid.IntRange(0, 5).Draw(t, "pods") {
		w.claims = append(w.claims, drawClaim(t, w, PodID(fmt.Sprintf("pod%d", i))))
	}
	return w
}

func drawMilli(t *rapid.T, label string) MilliCPU {
	return rapid.SampledFrom([]MilliCPU{0, 0, 1, 250, 500, 999, 1000, 1001, 1500, 2000, 3000}).Draw(t, label)
}

func drawRole(t *rapid.T) Role {
	return rapid.SampledFrom([]Role{RoleMain, RoleMain, RoleMain, RoleSidecar, RoleInit}).Draw(t, "role")
}

func drawClaim(t *rapid.T, w *world, id PodID) Claim {
	c := Claim{ID: id, Rank: int64(rapid.IntRange(0, 3).Draw(t, "rank")), SharedRequest: drawMilli(t, "sharedRequest")}
	for i := range rapid.SampledFrom([]int{0, 1, 1, 1, 2, 3}).Draw(t, "containers") {
		one := ContainerClaim{Name: fmt.Sprintf("c%d", i), Role: drawRole(t), Request: drawMilli(t, "request"),
			Limit: rapid.IntRange(1, 3).Draw(t, "limit")}
		if rapid.Bool().Draw(t, "static") {
			one.Policy = placement.Static
			one.CPUs = drawFew(t, w)
		} else {
			one.Policy = placement.StaticBurst
			one.NUMANodes = drawNodes(t, w)
		}
		c.Containers = append(c.Containers, one)
	}
	return c
}

// drawFew draws a few CPUs, sometimes an offline one, rarely one that does not exist.
func drawFew(t *rapid.T, w *world) (s cpuset.Set) {
	ids := slices.Collect(w.machine.Online().All())
	for range rapid.SampledFrom([]int{0, 1, 1, 1, 2, 2, 3}).Draw(t, "cpus") {
		s.Add(rapid.SampledFrom(ids).Draw(t, "cpu"))
	}
	if rapid.IntRange(0, 15).Draw(t, "missing") == 15 {
		s.Add(1000)
	}
	if offline := slices.Collect(w.machine.Offline.All()); len(offline) > 0 && rapid.IntRange(0, 3).Draw(t, "offline") == 3 {
		s.Add(rapid.SampledFrom(offline).Draw(t, "cpu"))
	}
	return s
}

// drawNodes draws some NUMA nodes, rarely one that does not exist or has no CPUs.
func drawNodes(t *rapid.T, w *world) (ids []topology.NUMAID) {
	var all []topology.NUMAID
	for _, c := range w.machine.CPUs {
		if !slices.Contains(all, c.NUMA) {
			all = append(all, c.NUMA)
		}
	}
	if rapid.IntRange(0, 15).Draw(t, "strange") == 15 {
		all = append(all, topology.NoNUMA, 77)
		for _, n := range w.machine.NUMANodes {
			if n.CPUs.IsEmpty() {
				all = append(all, n.ID)
			}
		}
	}
	slices.Sort(all)
	for _, id := range slices.Compact(all) {
		if rapid.Bool().Draw(t, "node") {
			ids = append(ids, id)
		}
	}
	return ids
}

func drawAsk(t *rapid.T) Ask {
	ask := Ask{
		Policy:        rapid.SampledFrom([]placement.Policy{"", placement.Static, placement.StaticBurst}).Draw(t, "policy"),
		FullCores:     rapid.SampledFrom([]placement.FullCores{"", placement.FullCoresPreferred, placement.FullCoresRequired}).Draw(t, "fullCores"),
		SharedRequest: drawMilli(t, "sharedRequest"),
	}
	for i := range rapid.SampledFrom([]int{0, 1, 1, 1, 2, 3}).Draw(t, "containers") {
		ask.Containers = append(ask.Containers, ContainerAsk{Name: fmt.Sprintf("c%d", i), Role: drawRole(t),
			CPUs: rapid.IntRange(1, 4).Draw(t, "cpus"), Request: drawMilli(t, "request")})
	}
	return ask
}

// TestDecideAgainstBruteForce: a pod is refused only if no choice is within what is available, the figures
// in errors are right, and each decision is as good as any other. Every choice within what is available,
// of all CPUs and all NUMA nodes, satisfies the rules for every union of confinements (the reference).
func TestDecideAgainstBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, 10)
		b, ref := w.books(), w.reference()
		for range 3 {
			ask := drawAsk(t)
			if rapid.IntRange(0, 2).Draw(t, "within") == 2 {
				ask.Within = w.machine.CPUsOfNUMA(drawNodes(t, w)...).Union(drawFew(t, w))
			}
			decision, err := b.Decide(ask)
			switch {
			case sharedIsShort(ref, ask):
				var short *SharedError
				if !errors.As(err, &short) {
					t.Fatalf("ask %+v: got %+v, %v; want a SharedError", ask, decision, err)
				}
			case len(ask.Containers) == 0:
				if err != nil {
					t.Fatalf("ask %+v: refused: %v", ask, err)
				}
			case ask.Policy == placement.StaticBurst:
				checkBurst(t, w, b, ref, ask, decision, err)
			default:
				checkStatic(t, w, b, ref, ask, decision, err)
			}
			if err == nil {
				checkDecision(t, w, ask, decision)
			}
		}
	})
}

func sharedIsShort(ref *reference, ask Ask) bool {
	request := ask.SharedRequest
	if ask.Policy == placement.StaticBurst {
		request += askPeak(ask)
	}
	return ref.with(request, cpuset.Set{}).debts().worse(ref.debts())
}

// askPeak returns the largest sum of the requests of an ask in any phase.
func askPeak(ask Ask) MilliCPU {
	var claims []ContainerClaim
	for _, c := range ask.Containers {
		claims = append(claims, ContainerClaim{Role: c.Role, Request: c.Request})
	}
	return refPeak(claims, func(c ContainerClaim) MilliCPU { return c.Request })
}

// askTotal returns the number of CPUs that an ask needs.
func askTotal(ask Ask) int {
	var claims []ContainerClaim
	for _, c := range ask.Containers {
		claims = append(claims, ContainerClaim{Role: c.Role, Request: MilliCPU(c.CPUs)})
	}
	return int(refPeak(claims, func(c ContainerClaim) MilliCPU { return c.Request }))
}

func checkStatic(t *rapid.T, w *world, b *Books, ref *reference, ask Ask, decision Decision, err error) {
	permitted, want := permittedSets(t, w, b, ref, ask), askTotal(ask)
	if len(permitted[want]) == 0 {
		have := 0
		for n := range permitted {
			have = max(have, n)
		}
		var refused *ExclusiveError
		if !errors.As(err, &refused) || refused.Want != want || refused.Have != have {
			t.Fatalf("ask %+v: got %+v, %v; want an ExclusiveError with Want %d, Have %d", ask, decision, err, want, have)
		}
		return
	}
	if err != nil {
		t.Fatalf("ask %+v: refused (%v), but CPUs %s would do", ask, err, permitted[want][0])
	}
	if !slices.Contains(permitted[want], decision.CPUs) {
		t.Fatalf("ask %+v: got CPUs %s, which break the rules", ask, decision.CPUs)
	}
	if len(w.machine.Kinds) > 1 {
		return // Quality does not tell faster kinds from slower ones
	}
	rate := func(cpus cpuset.Set) placement.Quality {
		q := w.index.Quality(cpus)
		q.LLCs = 0 // an LLC that spans NUMA nodes counts as one in each
		for _, n := range w.machine.NUMANodesOf(cpus) {
			q.LLCs += w.index.Quality(cpus.Intersection(w.machine.CPUsOfNUMA(n))).LLCs
		}
		return q
	}
	got := rate(decision.CPUs)
	for _, other := range permitted[want] {
		if q := rate(other); compareQuality(q, got) < 0 {
			t.Fatalf("ask %+v: got CPUs %s (%+v), but %s would be better (%+v)", ask, decision.CPUs, got, other, q)
		}
	}
}

func compareQuality(a, b placement.Quality) int {
	return cmp.Or(cmp.Compare(a.NUMANodes, b.NUMANodes), cmp.Compare(a.Distance, b.Distance),
		cmp.Compare(a.SplitCores, b.SplitCores), cmp.Compare(a.LLCs, b.LLCs))
}

// permittedSets returns, by size, all sets of free CPUs within what is available. That depends only on the
// number of CPUs taken from each NUMA node, which saves most of the checks.
func permittedSets(t *rapid.T, w *world, b *Books, ref *reference, ask Ask) map[int][]cpuset.Set {
	mayTake := ref.sharedSet().Difference(w.config.ReservedCPUs)
	if !ask.Within.IsEmpty() {
		mayTake = mayTake.Intersection(ask.Within)
	}
	free := slices.Collect(mayTake.All())
	before, verdicts, most := ref.debts(), map[string]bool{}, 0
	permitted := map[int][]cpuset.Set{}
	for chosen := 1; chosen < 1<<len(free); chosen++ {
		var set cpuset.Set
		perNode := map[topology.NUMAID]int{}
		for i, c := range free {
			if chosen>>i&1 == 1 {
				set.Add(c)
				described, _ := w.machine.CPU(c)
				perNode[described.NUMA]++
			}
		}
		if ask.FullCores == placement.FullCoresRequired && w.index.Quality(set).SplitCores > 0 {
			continue
		}
		key := fmt.Sprint(perNode)
		ok, known := verdicts[key]
		if !known {
			after := ref.with(ask.SharedRequest, set).debts()
			ok = after.requests <= before.requests && after.minShared <= before.minShared
			for id, cpus := range perNode {
				ok = ok && wholeCPUs(cpus) <= availableOn(b, id)
			}
			if verdicts[key] = ok; ok && after.worse(before) {
				t.Fatalf("ask %+v: CPUs %s are available, and break the rules: %+v, before %+v", ask, set, after, before)
			} else if !after.worse(before) {
				most = max(most, set.Len())
			}
		}
		if ok {
			permitted[set.Len()] = append(permitted[set.Len()], set)
		}
	}
	if len(permitted[most]) == 0 && most > 0 && losesNothing(w, b, ask) {
		t.Fatalf("ask %+v: all requests are whole CPUs, and %d could be taken: %v", ask, most, permitted)
	}
	return permitted
}

// availableOn returns what is available of the CPUs of some NUMA nodes.
func availableOn(b *Books, ids ...topology.NUMAID) (sum MilliCPU) {
	for _, n := range b.positions(ids) {
		sum += b.available[n]
	}
	return sum
}

// losesNothing reports whether amounts permit as many CPUs as any other division of the requests.
func losesNothing(w *world, b *Books, ask Ask) bool {
	return ask.FullCores != placement.FullCoresRequired && ask.Within.IsEmpty() && w.config.ReservedCPUs.IsEmpty() &&
		!slices.ContainsFunc(b.confinements, func(c confinement) bool { return c.demand == 0 || c.demand%1000 > 0 })
}

func checkBurst(t *rapid.T, w *world, b *Books, ref *reference, ask Ask, decision Decision, err error) {
	var nodes []topology.NUMAID
	for _, c := range w.machine.CPUs {
		if !slices.Contains(nodes, c.NUMA) {
			nodes = append(nodes, c.NUMA)
		}
	}
	before, request, want := ref.debts(), askPeak(ask), askTotal(ask)
	most, fewest := 0, len(nodes)+1
	for chosen := 1; chosen < 1<<len(nodes); chosen++ {
		item, ids := refConfined{nodes: map[topology.NUMAID]bool{}, request: request}, []topology.NUMAID(nil)
		for i, n := range nodes {
			if chosen>>i&1 == 1 {
				item.nodes[n], ids = true, append(ids, n)
			}
		}
		if availableOn(b, ids...) < request {
			continue
		}
		if after := ref.with(ask.SharedRequest, cpuset.Set{}, item).debts(); ref.sharedIn(item.nodes) > 0 && after.worse(before) {
			t.Fatalf("ask %+v: NUMA nodes %v have enough available, and break the rules: %+v, before %+v", ask, ids, after, before)
		}
		shared := ref.sharedIn(item.nodes)
		most = max(most, shared)
		if shared >= want {
			fewest = min(fewest, len(ids))
		}
	}
	var refused *ConfinementError
	if most < want {
		if !errors.As(err, &refused) || refused.Want != want || refused.Have != most {
			t.Fatalf("ask %+v: got %+v, %v; want a ConfinementError with Want %d, Have %d", ask, decision, err, want, most)
		}
		return
	}
	if err != nil {
		t.Fatalf("ask %+v: refused (%v), but %d NUMA nodes would do", ask, err, fewest)
	}
	ids := decision.Containers[0].NUMANodes
	if availableOn(b, ids...) < request || len(w.machine.Kinds) == 1 && len(ids) != fewest {
		t.Fatalf("ask %+v: confined to %v, but %d NUMA nodes would do", ask, ids, fewest)
	}
}

// checkDecision checks how a pod's CPUs are divided, and that the books accept the decision.
func checkDecision(t *rapid.T, w *world, ask Ask, d Decision) {
	var all cpuset.Set
	for i, c := range d.Containers {
		asked := ask.Containers[i]
		if c.Name != asked.Name || c.Role != asked.Role || c.Limit != asked.CPUs || c.Request != asked.Request {
			t.Fatalf("asked for %+v, got %+v", asked, c)
		}
		if c.Policy == placement.Static && c.CPUs.Len() != asked.CPUs {
			t.Fatalf("container %s has CPUs %s, want %d of them", c.Name, c.CPUs, asked.CPUs)
		}
		all = all.Union(c.CPUs)
		for _, j := range refTogether(d.Containers, i) {
			if i != j && c.CPUs.Intersects(d.Containers[j].CPUs) {
				t.Fatalf("containers %+v and %+v run together on the same CPUs", c, d.Containers[j])
			}
		}
	}
	if ask.Policy != placement.StaticBurst && (all != d.CPUs || len(ask.Containers) > 0 && all.Len() != askTotal(ask)) {
		t.Fatalf("the pod has CPUs %s, its containers %s, want %d", d.CPUs, all, askTotal(ask))
	}
	b := w.books()
	b.Add(d.Claim("asking", 100))
	if b.entries[0].lost && b.entries[0].claim.ID == "asking" {
		t.Fatalf("the books reject the decision: %v", b.Conflicts())
	}
	after := newReference(w.machine, w.config, b.Claims()).debts()
	if before := w.reference().debts(); after.requests > before.requests || after.unserved > before.unserved ||
		(ask.Policy != placement.StaticBurst && after.minShared > before.minShared) {
		t.Fatalf("the decision %+v breaks the rules: %+v, before it %+v", d, after, before)
	}
}
