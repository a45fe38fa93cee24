package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/bench/internal/kubelet"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/internal/command"
)

// verdict compares an answer with Pinfold's: as good, or the first criterion by which it is worse.
type verdict string

const (
	asGood       verdict = "as good"
	moreNodes    verdict = "more NUMA nodes"
	moreDistance verdict = "more distance"
	moreSplit    verdict = "more split cores"
	moreLLCs     verdict = "more LLCs"
	better       verdict = "better"
)

// judge compares an answer with Pinfold's by criteria 2 to 5.
func judge(ours, theirs placement.Quality) verdict {
	for _, criterion := range []struct {
		ours, theirs int
		worse        verdict
	}{
		{ours.NUMANodes, theirs.NUMANodes, moreNodes},
		{ours.Distance, theirs.Distance, moreDistance},
		{ours.SplitCores, theirs.SplitCores, moreSplit},
		{ours.LLCs, theirs.LLCs, moreLLCs},
	} {
		switch {
		case criterion.theirs < criterion.ours:
			return better
		case criterion.theirs > criterion.ours:
			return criterion.worse
		}
	}
	return asGood
}

// contender is a chooser with a name.
type contender struct {
	name   string
	choose chooser
}

// comparison has all contenders on one machine. The first one is Pinfold.
type comparison struct {
	machine    *topology.Machine
	index      *placement.Index
	contenders []contender
}

// pinfoldRepeat makes the cost of the clock negligible: 100 placements take about 100 us.
const pinfoldRepeat = 100

func newComparison(m *topology.Machine) (*comparison, error) {
	ix := placement.NewIndex(m)
	c := &comparison{m, ix, []contender{{"Pinfold", pinfold(ix, pinfoldRepeat)}}}
	for _, v := range kubelet.Variants() {
		choose, err := newKubelet(m, v)
		if err != nil {
			return nil, err
		}
		c.contenders = append(c.contenders, contender{v.Name, choose})
	}
	return c, nil
}

// ask asks every contender for n CPUs of every free set. It returns a row for each, of which the
// caller sets machine and free. It returns an error if an answer is better than Pinfold's.
func (c *comparison) ask(ctx context.Context, frees []cpuset.Set, n int) ([]row, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ours := make([]answer, len(frees))
	var rows []row
	for i, who := range c.contenders {
		r := row{cpus: n, chooser: who.name, sets: len(frees), verdicts: map[verdict]int{}}
		var times []time.Duration
		for j, free := range frees {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			a, err := who.choose.ask(free, n)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", who.name, err)
			}
			if i == 0 {
				ours[j] = a
			}
			quality := c.index.Quality(a.cpus)
			v := judge(c.index.Quality(ours[j].cpus), quality)
			if v == better {
				return nil, fmt.Errorf("%s is better than Pinfold: %d CPUs of %v: %v (%+v), Pinfold %v", who.name, n, free, a.cpus, quality, ours[j].cpus)
			}
			r.numaNodes += float64(quality.NUMANodes)
			r.distance += float64(quality.Distance)
			r.splitCores += float64(quality.SplitCores)
			r.llcs += float64(quality.LLCs)
			r.verdicts[v]++
			times = append(times, a.took)
		}
		for _, sum := range []*float64{&r.numaNodes, &r.distance, &r.splitCores, &r.llcs} {
			*sum /= float64(len(frees))
		}
		slices.Sort(times)
		r.median = times[len(times)/2]
		rows = append(rows, r)
	}
	return rows, nil
}

// compare asks all questions about one machine, with the given number of free sets.
func compare(ctx context.Context, mc machine, sets int, progress func(string)) ([]row, error) {
	m, err := mc.shape.Build()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", mc.name, err)
	}
	c, err := newComparison(m)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", mc.name, err)
	}
	return c.cases(ctx, mc, sets, progress)
}

// cases asks all questions about the machine of the comparison.
func (c *comparison) cases(ctx context.Context, mc machine, sets int, progress func(string)) ([]row, error) {
	var rows []row
	for _, how := range scatters() {
		frees := freeSets(c.machine, how, sets)
		for _, n := range mc.cpus {
			progress(fmt.Sprintf("%s, free %s, %d CPUs", mc.name, how, n))
			answered, err := c.ask(ctx, frees, n)
			if err != nil {
				return nil, fmt.Errorf("%s, free %s: %w", mc.name, how, err)
			}
			for _, r := range answered {
				r.machine, r.free = mc.name, how
				rows = append(rows, r)
			}
		}
	}
	return rows, nil
}

// answer is the CPUs that a chooser chose.
type answer struct {
	cpus cpuset.Set
	took time.Duration // CPU time
}

// chooser picks n of the free CPUs. It is called on a locked thread, so that it can measure CPU
// time.
type chooser func(free cpuset.Set, n int) (answer, error)

// ask checks that the answer is n of the free CPUs.
func (choose chooser) ask(free cpuset.Set, n int) (answer, error) {
	a, err := choose(free, n)
	if err == nil && (a.cpus.Len() != n || !a.cpus.IsSubsetOf(free)) {
		err = fmt.Errorf("asked for %d CPUs of %v, got %v", n, free, a.cpus)
	}
	return a, err
}

// newKubelet returns a kubelet that reserves no CPU.
func newKubelet(m *topology.Machine, v kubelet.Variant) (chooser, error) {
	k, err := kubelet.New(m, cpuset.Set{}, v)
	return func(free cpuset.Set, n int) (a answer, err error) {
		a.cpus, a.took, err = k.Choose(free, n)
		return a, err
	}, err
}

// pinfold returns the static policy of package placement. repeat is how often a question is asked
// to time it: reading the clock takes long compared with one placement.
func pinfold(index *placement.Index, repeat int) chooser {
	return func(free cpuset.Set, n int) (a answer, err error) {
		var result placement.Result
		start := command.CPUTime(unix.CLOCK_THREAD_CPUTIME_ID)
		for range repeat {
			result, err = index.Place(free, placement.Request{CPUs: n})
		}
		if err != nil {
			return a, fmt.Errorf("place %d CPUs of %v: %w", n, free, err)
		}
		return answer{result.CPUs, (command.CPUTime(unix.CLOCK_THREAD_CPUTIME_ID) - start) / time.Duration(repeat)}, nil
	}
}
