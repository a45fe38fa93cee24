package scheduler

import (
	"cmp"
	"testing"

	fwk "k8s.io/kube-scheduler/framework"
	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
)

type placed struct {
	quality placement.Quality
	use     int
}

// compareByCriteria is the order that ranks must have, criterion by criterion.
func compareByCriteria(a, b placed) int {
	return cmp.Or(
		cmp.Compare(a.quality.Kinds, b.quality.Kinds),
		cmp.Compare(a.quality.NUMANodes, b.quality.NUMANodes),
		cmp.Compare(a.quality.Distance, b.quality.Distance),
		cmp.Compare(a.quality.SplitCores, b.quality.SplitCores),
		cmp.Compare(a.quality.LLCs, b.quality.LLCs),
		cmp.Compare(a.use, b.use),
	)
}

func genPlaced(t *rapid.T, label string) placed {
	n := func(field string, most int) int { return rapid.IntRange(0, most).Draw(t, label+" "+field) }
	return placed{
		quality: placement.Quality{Kinds: n("kinds", 4), NUMANodes: n("nodes", 64), Distance: n("distance", 1<<20-1),
			SplitCores: n("split", 512), LLCs: n("llcs", 256), Packages: n("packages", 8)},
		use: n("use", fullUse),
	}
}

func TestRanksOrderLikeCriteria(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := genPlaced(t, "a"), genPlaced(t, "b")
		if rapid.Bool().Draw(t, "same quality") {
			b.quality = a.quality
		}
		got := cmp.Compare(rankOf(a.quality, a.use), rankOf(b.quality, b.use))
		if want := compareByCriteria(a, b); got != want {
			t.Fatalf("ranks of %+v and %+v compare as %d, want %d", a, b, got, want)
		}
	})
}

// A better class never scores less, within a class less use never scores less, and
// where there are few classes the order is strict between them.
func TestNormalize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		classes := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) placed { return genPlaced(t, "class") }), 1, 10).Draw(t, "classes")
		nodes := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) placed {
			p := rapid.SampledFrom(classes).Draw(t, "class of node")
			p.use = rapid.IntRange(0, fullUse).Draw(t, "use of node")
			return p
		}), 1, 40).Draw(t, "nodes")
		scores := make(fwk.NodeScoreList, len(nodes))
		for i, n := range nodes {
			scores[i].Score = int64(rankOf(n.quality, n.use))
		}
		normalize(scores)
		for i, a := range nodes {
			if s := scores[i].Score; s < fwk.MinScore || s > fwk.MaxScore {
				t.Fatalf("score %d", s)
			}
			for j, b := range nodes {
				sameClass := rankOf(a.quality, 0) == rankOf(b.quality, 0)
				better := compareByCriteria(a, b) < 0
				if better && scores[i].Score < scores[j].Score {
					t.Fatalf("%+v scores %d, the worse %+v scores %d", a, scores[i].Score, b, scores[j].Score)
				}
				if better && !sameClass && scores[i].Score == scores[j].Score {
					t.Fatalf("%+v and the worse %+v both score %d", a, b, scores[i].Score)
				}
			}
		}
	})
}

// Nodes are compared for pods that ask, and for no others.
func TestPreScore(t *testing.T) {
	p, node := barePlugin(t), nodeInfoOf("n", 8)
	reportMachine(t, p, "n", topology.Shape{CoresPerLLC: 8}.MustBuild(), 1)
	for cpus, want := range []fwk.Code{fwk.Skip, fwk.Success} {
		pod := askingPod("pod", cpus)
		if status := p.PreScore(t.Context(), startCycle(t, p, pod, node), pod, nil); status.Code() != want {
			t.Errorf("%d CPUs: %v, want %v", cpus, status, want)
		}
	}
}

func TestNormalizeValues(t *testing.T) {
	one := placement.Quality{Kinds: 1, NUMANodes: 1, LLCs: 1}
	two := placement.Quality{Kinds: 1, NUMANodes: 2, Distance: 42, LLCs: 2}
	split := placement.Quality{Kinds: 1, NUMANodes: 1, SplitCores: 1, LLCs: 1}
	for _, test := range []struct {
		name  string
		nodes []placed
		want  []int64
	}{
		{"alike", []placed{{one, 0}, {one, 0}}, []int64{100, 100}},
		{"use only", []placed{{one, 0}, {one, fullUse}, {one, fullUse / 2}}, []int64{100, 90, 95}},
		{"two classes", []placed{{two, 0}, {one, 0}}, []int64{10, 100}},
		{"three classes, the best one full", []placed{{two, 0}, {one, fullUse}, {split, 0}}, []int64{10, 90, 55}},
	} {
		scores := make(fwk.NodeScoreList, len(test.nodes))
		for i, n := range test.nodes {
			scores[i].Score = int64(rankOf(n.quality, n.use))
		}
		normalize(scores)
		for i := range scores {
			if scores[i].Score != test.want[i] {
				t.Errorf("%s: node %d scores %d, want %d", test.name, i, scores[i].Score, test.want[i])
			}
		}
	}
}
