package main

import (
	"context"
	"fmt"
	"runtime"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
)

// verdict is how an answer stands beside Pinfold's: as good, or the first
// criterion by which it is worse.
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
	name string
	chooser
}

// comparison is all contenders on one machine. The first is Pinfold.
type comparison struct {
	machine    *topology.Machine
	index      *placement.Index
	contenders []contender
}

// pinfoldRepeat lets the clock cost nothing beside 100 placements of 1 us.
const pinfoldRepeat = 100

func newComparison(m *topology.Machine) (*comparison, error) {
	ix := placement.NewIndex(m)
	c := &comparison{m, ix, []contender{{"Pinfold", pinfold{ix, pinfoldRepeat}}}}
	for _, v := range variants() {
		k, err := newKubelet(m, v)
		if err != nil {
			return nil, err
		}
		c.contenders = append(c.contenders, contender{v.name, k})
	}
	return c, nil
}

// ask asks every contender for n CPUs of every free set and returns a row for
// each, with the case left to the caller. It returns an error when an answer is
// better than Pinfold's.
func (c *comparison) ask(ctx context.Context, frees []cpuset.Set, n int) ([]Row, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ours := make([]answer, len(frees))
	var rows []Row
	for i, who := range c.contenders {
		t := tally{verdicts: map[verdict]int{}}
		for j, free := range frees {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			a, err := ask(who, free, n)
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
			t.add(quality, v, a.took)
		}
		rows = append(rows, t.row(who.name, n))
	}
	return rows, nil
}

// compare asks about the first sets free sets of every case of one machine.
func compare(ctx context.Context, mc machine, sets int, progress func(string)) ([]Row, error) {
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

// cases asks about every case of the machine that the comparison is on.
func (c *comparison) cases(ctx context.Context, mc machine, sets int, progress func(string)) ([]Row, error) {
	var rows []Row
	for _, how := range scatters() {
		frees := freeSets(c.machine, how, sets)
		for _, n := range mc.cpus {
			progress(fmt.Sprintf("%s, free %s, %d CPUs", mc.name, how, n))
			answered, err := c.ask(ctx, frees, n)
			if err != nil {
				return nil, fmt.Errorf("%s, free %s: %w", mc.name, how, err)
			}
			for _, r := range answered {
				r.Machine, r.Free = mc.name, how
				rows = append(rows, r)
			}
		}
	}
	return rows, nil
}
