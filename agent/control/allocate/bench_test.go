package allocate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/perf/benchmath"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/agent/control/controltest"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/test/must"
)

// BenchmarkRepack reports what moves do for pods that come and go. Each iteration is twelve hours of
// a node, of which the last ten count, with the same pods for every margin: -benchtime 8x. Pods want
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

// play plays the history, and returns its figures. The agent decides when pods have come or gone,
// and once a minute.
func (h history) play(margin Repack) map[string]float64 {
	const step, warm, end = 15 * time.Second, 2 * time.Hour, 12 * time.Hour
	c := New("n1", margin, api.Ceilings{})
	index, now, objects := placement.NewIndex(h.shape.MustBuild()), time.Unix(1_800_000_000, 0), []*corev1.Pod(nil)
	rng, names := rand.New(rand.NewPCG(20261126, h.seed)), 0
	ends, sizes, used, most := map[string]time.Time{}, map[string]int{}, 0, index.Machine().Online().Len()*h.most/100
	figures, rate := map[string]float64{"split": 0, "LLCs": 0, "NUMA": 0, "moves": 0}, newRating(h.b, index)
	for passed := step; passed <= end; passed += step {
		now = now.Add(step)
		changed := passed%time.Minute == 0
		for name, at := range ends {
			if !now.Before(at) {
				objects = slices.DeleteFunc(objects, func(p *corev1.Pod) bool { return p.Name == name })
				used, changed = used-sizes[name], true
				delete(ends, name)
			}
		}
		for range 3 { // offers; each is drawn, so that all margins see the same
			size := []int{1, 1, 1, 2, 2, 2, 3, 4, 4, 6, 8, 16}[rng.IntN(12)]
			life := time.Duration(math.Exp(rng.NormFloat64()*1.2) * float64(20*time.Minute))
			if rng.IntN(4) > 0 || used+size > most {
				continue
			}
			names++
			name := "p" + strconv.Itoa(names)
			pod, _, err := controltest.Pod([]string{name, fmt.Sprintf("app=%d@?", size)}, now)
			must.Do(h.b, err)
			pod.Status.Phase = corev1.PodRunning
			objects = append(objects, pod)
			ends[name], sizes[name], used, changed = now.Add(life), size, used+size, true
		}
		if changed {
			c.Simulate(now, objects, index, ledger.Config{MinShared: 1})
		}
		if passed <= warm {
			continue
		}
		if changed && c.Moved() != nil {
			figures["moves"] += float64(time.Hour) / float64(end-warm)
			c.moved = nil // users were told
		}
		rate.add(figures, c.allocated, float64((end-warm)/step))
	}
	return figures
}

// rating counts the pods that have worse CPUs than on an empty machine.
type rating struct {
	index *placement.Index
	ideal [17]placement.Quality // by the number of CPUs
}

func newRating(b *testing.B, index *placement.Index) *rating {
	r := &rating{index: index}
	for n := range r.ideal[1:] {
		r.ideal[n+1] = must.Get(index.Place(index.Machine().Online(), placement.Request{CPUs: n + 1}))(b).Quality
	}
	return r
}

// add adds the pods at one moment to figures, which are percentages averaged over samples moments.
func (r *rating) add(figures map[string]float64, pods map[types.UID]api.Allocation, samples float64) {
	weight := 100 / float64(len(pods)) / samples
	for _, a := range pods {
		cpus := a.CPUs()
		q, best := r.index.Quality(cpus), r.ideal[cpus.Len()]
		for figure, more := range map[string]int{"split": q.SplitCores - best.SplitCores, "LLCs": q.LLCs - best.LLCs, "NUMA": q.NUMANodes - best.NUMANodes} {
			if more > 0 {
				figures[figure] += weight
			}
		}
	}
}
