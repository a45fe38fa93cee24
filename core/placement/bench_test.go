package placement

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/test/busy"
	"pinfold.dev/pinfold/test/must"
)

// benchMachines are the machines of BenchmarkPlace. Their free sets are generated from benchSeed,
// so every run of this version of the file has the same input.
var benchMachines = []struct {
	name  string
	shape topology.Shape
}{
	{"256cpu-8numa-16llc", topology.Shape{Packages: 2, NUMAPerPackage: 4, LLCsPerNUMA: 2, CoresPerLLC: 8, ThreadsPerCore: 2}},
	{"256cpu-8numa-32llc", topology.Shape{Packages: 2, NUMAPerPackage: 4, LLCsPerNUMA: 4, CoresPerLLC: 4, ThreadsPerCore: 2}},
	{"256cpu-8numa-16llc-adjacent", topology.Shape{Packages: 2, NUMAPerPackage: 4, LLCsPerNUMA: 2, CoresPerLLC: 8, ThreadsPerCore: 2, Numbering: topology.SiblingsAdjacent}},
	{"256cpu-16numa-32llc", topology.Shape{Packages: 2, NUMAPerPackage: 8, LLCsPerNUMA: 2, CoresPerLLC: 4, ThreadsPerCore: 2}},
	{"384cpu-8numa-24llc", topology.Shape{Packages: 2, NUMAPerPackage: 4, LLCsPerNUMA: 3, CoresPerLLC: 8, ThreadsPerCore: 2}},
}

const (
	benchSeed     = 20261120
	benchFreeSets = 1000
)

// freeSets returns 1,000 random free sets of 60% of a machine, by whole core or by thread; or, for
// "all", the set of all CPUs.
func freeSets(m *topology.Machine, how string) []cpuset.Set {
	if how == "all" {
		return []cpuset.Set{m.Online()}
	}
	rng := rand.New(rand.NewPCG(benchSeed, 0))
	units := m.Cores()
	if how == "by-thread" {
		units = nil
		for _, c := range m.CPUs {
			units = append(units, topology.Group[topology.CoreID]{CPUs: cpuset.Of(c.ID)})
		}
	}
	sets := make([]cpuset.Set, benchFreeSets)
	for i := range sets {
		rng.Shuffle(len(units), func(a, b int) { units[a], units[b] = units[b], units[a] })
		for _, u := range units[:len(units)*6/10] {
			sets[i] = sets[i].Union(u.CPUs)
		}
	}
	return sets
}

// BenchmarkPlace reports the mean, and the median and worst CPU time of the free sets. Each set is
// timed as the best of several batches, which excludes most of what other programs do to caches.
func BenchmarkPlace(b *testing.B) {
	for _, machine := range benchMachines {
		m := machine.shape.MustBuild()
		ix := NewIndex(m)
		for _, how := range []string{"all", "by-core", "by-thread"} {
			sets := freeSets(m, how)
			for _, cpus := range []int{4, 16, 64} {
				b.Run(fmt.Sprintf("%s/free=%s/cpus=%d", machine.name, how, cpus), func(b *testing.B) {
					benchPlace(b, ix, sets, Request{CPUs: cpus})
				})
			}
		}
	}
}

func benchPlace(b *testing.B, ix *Index, sets []cpuset.Set, req Request) {
	for i := range sets {
		must.Get(ix.Place(sets[i], req))(b)
	}
	for i := 0; b.Loop(); i++ {
		must.Get(ix.Place(sets[i%len(sets)], req))(b)
	}
	b.StopTimer()
	runtime.LockOSThread() // its clock is read
	defer runtime.UnlockOSThread()
	times := timeEach(ix, sets, req)
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Nanoseconds())/batch, "median-ns")
	b.ReportMetric(float64(times[len(times)-1].Nanoseconds())/batch, "worst-ns")
}

// batch is the number of placements that are timed at once: reading the clock takes as long as one.
const batch = 10

// timeEach returns the best time of a batch on each free set.
func timeEach(ix *Index, sets []cpuset.Set, req Request) []time.Duration {
	times := make([]time.Duration, len(sets))
	for i := range sets {
		times[i] = time.Hour
		for range 7 {
			begun := busy.CPUTime()
			for range batch {
				_, _ = ix.Place(sets[i], req)
			}
			times[i] = min(times[i], busy.CPUTime()-begun)
		}
	}
	return times
}

func TestPlaceDoesNotAllocate(t *testing.T) {
	for _, machine := range benchMachines {
		m := machine.shape.MustBuild()
		ix := NewIndex(m)
		for _, how := range []string{"all", "by-core", "by-thread"} {
			sets := freeSets(m, how)
			for _, cpus := range []int{1, 4, 16, 64} {
				i := 0
				n := testing.AllocsPerRun(200, func() {
					i++
					must.Get(ix.Place(sets[i%len(sets)], Request{CPUs: cpus}))(t)
				})
				if n != 0 {
					t.Errorf("%s free=%s cpus=%d: %v allocations per placement, want none", machine.name, how, cpus, n)
				}
			}
		}
	}
}
