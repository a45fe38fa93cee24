package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"

	"pinfold.dev/pinfold/core/demand"
	"pinfold.dev/pinfold/core/interference"
)

// pinfold is core/interference with so many workers.
func pinfold(workers int) contender {
	name := "Pinfold, 1 worker"
	if workers > 1 {
		name = fmt.Sprintf("Pinfold, %d workers", workers)
	}
	return contender{name: name, same: true, ask: func(ctx context.Context, q question) (answer, error) {
		d, err := demand.NewExponential(q.load)
		if err != nil {
			return answer{}, err
		}
		config := interference.Config{
			Groups:  []interference.Group{{Count: groups, Quota: 1, Burst: burst, Demand: demand.Independent{Distribution: d}}},
			Periods: q.periods, Workers: workers,
			Random: func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(q.seed, n)) },
		}
		cpu, wall := cpuTime(), time.Now()
		r, err := interference.Simulate(ctx, config)
		if err != nil {
			return answer{}, err
		}
		a := answer{WallSeconds: time.Since(wall).Seconds(), CPUSeconds: (cpuTime() - cpu).Seconds()}
		a.fill(r)
		return a, nil
	}}
}

func (a *answer) fill(r *interference.Result) {
	g := r.Groups[0]
	a.Periods, a.WCET = r.Periods, r.WCET
	a.ExpectedWCET, a.ProbabilityWCET1 = estimate(r.ExpectedWCET), estimate(r.ProbabilityWCET1)
	a.ThrottleRatio, a.Backlog = estimate(g.ThrottleRatio), estimate(g.Backlog)
	a.BurstUse, a.Demand = estimate(g.BurstUse), estimate(g.Demand)
}

// cpuTime is what this process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // getrusage(2): only for an invalid argument
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
