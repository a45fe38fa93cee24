package allocate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"golang.org/x/perf/benchmath"

	"pinfold.dev/pinfold/agent/control/controltest"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
)

// BenchmarkRepack reports what moves do for pods that come and go. Each iteration is twelve hours of
// a node, of which the last ten count, with the same pods for every margin: -benchtime 12x. Pods want
// 1 to 16 CPUs and run for 20 minutes in the median, some for hours. There are always more of them
// than fit in a percentage of the CPUs; the others go elsewhere.
//
// The figures are the pods that have more split cores, last-level caches or NUMA nodes than they
// would have on an empty machine, in percent over time, and the moves in an hour: means with 95%
// intervals over the iterations.
func BenchmarkRepack(b *testing.B) {
	for _, machine := range []struct {
		name  string
		shape topology.Shape
	}{
		{"cpus=64/nodes=1/llcs=8", topology.Shape{LLCsPerNUMA: 8, CoresPerLLC: 4, ThreadsPerCore: 2}},
		{"cpus=104/nodes=2/llcs=2", topology.Shape{Packages: 2, CoresPerLLC: 26, ThreadsPerCore: 2}},
		{"cpus=256/nodes=8/llcs=16", topology.Shape{Packages: 2, NUMAPerPackage: 4, LLCsPerNUMA: 2, CoresPerLLC: 8, ThreadsPerCore: 2}},
	} {
		for _, full := range []int{90, 97} {
			b.Run(fmt.Sprintf("%s/full=%d%%", machine.name, full), func(b *testing.B) {
				for _, margin := range []Repack{RepackNone, RepackCores, RepackLLCs, RepackNUMA} {
					figures := map[string][]float64{}
					for seed := range b.N {
						h := history{b: b, shape: machine.shape, most: full, seed: uint64(seed)}
						for figure, value := range h.play(margin) {
							figures[figure] = append(figures[figure], value)
						}
					}
					if b.N > 1 { // the first run of a benchmark has one iteration
						b.Logf("%-10s %s", margin, summary(figures))
					}
				}
			})
		}
	}
}

func summary(figures map[string][]float64) (text string) {
	for _, figure := range []string{"split", "LLCs", "NUMA", "moves"} {
		s := benchmath.AssumeNormal.Summary(benchmath.NewSample(figures[figure], &benchmath.DefaultThresholds), 0.95)
		text += fmt.Sprintf("  %s %.1f (%.1f to %.1f)", figure, s.Center, s.Lo, s.Hi)
	}
	return text
}

// history is the life of a node.
type history struct {
	b     *testing.B
	shape topology.Shape
	most  int // percent of its CPUs that pods have
	seed  uint64
}

// play plays the history, and returns its figures.
func (h history) play(margin Repack) map[string]float64 {
	const step, warm, end = 15 * time.Second, 2 * time.Hour, 12 * time.Hour
	n := controltest.NewNode(h.shape.MustBuild())
	c := start(n, margin)
	run := func(words ...string) {
		if _, err := n.Run(words); err != nil {
			h.b.Fatal(err)
		}
	}
	rng, begun, names := rand.New(rand.NewPCG(20261126, h.seed)), n.Round.Now, 0
	ends, sizes, used, most := map[string]time.Time{}, map[string]int{}, 0, n.Round.Online.Len()*h.most/100
	figures, samples := map[string]float64{"split": 0, "LLCs": 0, "NUMA": 0, "moves": 0}, float64((end-warm)/step)
	ideal := map[int]placement.Quality{}
	for n.Round.Now.Sub(begun) < end {
		n.Round.Now = n.Round.Now.Add(step)
		for name, at := range ends {
			if !n.Round.Now.Before(at) {
				run("remove", name)
				used -= sizes[name]
				delete(ends, name)
			}
		}
		for range 3 { // offers; each is drawn, so that all margins see the same
			size := []int{1, 1, 1, 2, 2, 2, 3, 4, 4, 6, 8, 16}[rng.IntN(12)]
			life := time.Duration(math.Exp(rng.NormFloat64()*1.2) * float64(20*time.Minute))
			if rng.IntN(4) > 0 || used+size > most {
				continue
			}
			if _, known := ideal[size]; !known {
				placed, err := n.State.Index.Place(n.Round.Online, placement.Request{CPUs: size})
				if err != nil {
					h.b.Fatal(err)
				}
				ideal[size] = placed.Quality
			}
			names++
			name := "p" + strconv.Itoa(names)
			run("pod", name, fmt.Sprintf("app=%d@?", size))
			ends[name], sizes[name], used = n.Round.Now.Add(life), size, used+size
		}
		n.Locate()
		c.Decide(&n.Round, n.Pods, n.State.Index, ledger.Config{MinShared: 1})
		c.Saved(n.Pods, nil)
		if n.Round.Now.Sub(begun) <= warm {
			continue
		}
		if c.Moved() != nil {
			figures["moves"] += float64(time.Hour) / float64(end-warm)
		}
		for _, a := range c.given.Pods {
			q, best := n.State.Index.Quality(cpusOf(a)), ideal[cpusOf(a).Len()]
			for figure, worse := range map[string]bool{"split": q.SplitCores > best.SplitCores, "LLCs": q.LLCs > best.LLCs, "NUMA": q.NUMANodes > best.NUMANodes} {
				if worse {
					figures[figure] += 100 / float64(len(c.given.Pods)) / samples
				}
			}
		}
	}
	return figures
}
