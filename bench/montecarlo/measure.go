package main

import (
	"context"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
)

// tooFar is by how many standard errors two answers may differ.
const tooFar = 5

// loads are those that are measured.
func loads() []float64 { return []float64{.5, .7, .9} }

// outcome is what one contender did with one load, in all rounds.
type outcome struct {
	load    float64
	name    string
	same    bool     // as the first contender, not only as good
	answers []answer // by round
	off     float64  // the largest difference from the first contender, in standard errors
}

// measure asks all contenders all questions in each round, and checks that they agree.
func measure(ctx context.Context, contenders []contender, o options, progress func(string)) ([]outcome, error) {
	var all []outcome
	for _, load := range loads() {
		for _, c := range contenders {
			all = append(all, outcome{load: load, name: c.name, same: c.same})
		}
	}
	for round := range o.rounds {
		for i := range all {
			c, out := contenders[i%len(contenders)], &all[i]
			progress(fmt.Sprintf("round %d: u = %v, %s", round+1, out.load, c.name))
			a, err := c.ask(ctx, question{out.load, o.periods, uint64(round + 1)})
			if err != nil {
				return nil, fmt.Errorf("u = %v, %s: %w", out.load, c.name, err)
			}
			out.answers = append(out.answers, a)
			first := all[i-i%len(contenders)]
			if err := out.agree(first, round); err != nil {
				return nil, fmt.Errorf("u = %v: %w", out.load, err)
			}
		}
	}
	return all, nil
}

// agree compares what came out in a round with what the first contender found.
func (o *outcome) agree(first outcome, round int) error {
	a, b := o.answers[round], first.answers[round]
	if a.Periods < 1 || !(a.WallSeconds > 0) || !(a.CPUSeconds > 0) {
		return fmt.Errorf("%s simulated %d periods in %v s, %v s of CPU time", o.name, a.Periods, a.WallSeconds, a.CPUSeconds)
	}
	if o.same {
		a.WallSeconds, a.CPUSeconds = b.WallSeconds, b.CPUSeconds
		if !reflect.DeepEqual(a, b) {
			return fmt.Errorf("%s finds %+v and %s finds %+v: they should be the same", first.name, b, o.name, a)
		}
		return nil
	}
	theirs, ours := a.figures(), b.figures()
	for _, name := range slices.Sorted(maps.Keys(ours)) {
		x, y := theirs[name], ours[name]
		z := math.Abs(x.Value-y.Value) / math.Hypot(x.StandardError, y.StandardError)
		if x.Value == y.Value {
			z = 0
		}
		if !(z <= tooFar) {
			return fmt.Errorf("%s: %s finds %v and %s finds %v, which differ by %.3g standard errors: one of them computes something else", name, first.name, y, o.name, x, z)
		}
		o.off = max(o.off, z)
	}
	return nil
}

// figures are those that must agree, by their names.
func (a answer) figures() map[string]estimate {
	return map[string]estimate{"E[WCET]": a.ExpectedWCET, "P(WCET = 1)": a.ProbabilityWCET1, "throttle ratio": a.ThrottleRatio,
		"backlog": a.Backlog, "burst used": a.BurstUse, "demand": a.Demand}
}
