package contention

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/linux/cgroup"
)

// Kind is a kind of case.
type Kind string

// The kinds.
const (
	Throttled Kind = "throttled only"
	Contended Kind = "contention only"
	Both      Kind = "both"
	Bursts    Kind = "bursts of 1 to 4 ms"
	Threads   Kind = "many threads"
	Limited   Kind = "culprits with limits"
	Many      Kind = "many culprits"
	Outside   Kind = "culprit outside"
	Alone     Kind = "another CPU is busy"
	Short     Kind = "short-lived threads"
	Kernel    Kind = "threads of the kernel"
	RealTime  Kind = "real-time thread"
)

// Kinds returns all kinds, in the order of the table.
func Kinds() []Kind {
	return []Kind{Throttled, Contended, Both, Bursts, Threads, Short, Limited, Many, Outside, Kernel, RealTime, Alone}
}

// program is what runs in a group of its own.
type program struct {
	args     []string // of pinfold-lab workload
	wanted   cgroup.Wanted
	weight   float64 // as a multiple of the default, 0 for that
	otherCPU bool
}

// plan is what a case runs. The first program is the victim.
type plan struct {
	kind     Kind
	programs []program
	// outside is the culprit if it is in no group of the case: it works until ctx ends, on a CPU or beside it. nil
	// if it is in one.
	outside func(ctx context.Context, cpu, other cpuset.CPU)
}

// newPlan returns the plan of a case.
func newPlan(number int) plan {
	kinds := Kinds()
	r := rand.New(rand.NewPCG(uint64(number), 52))
	between := func(least, most int) int { return least + r.IntN(most-least+1) }
	ms := func(least, most int) string { return fmt.Sprint(between(least, most)) + "ms" }
	batch := func(threads int) program { return program{args: []string{"batch", fmt.Sprint("--threads=", threads)}} }
	cycles := func(threads int, compute, rest string) program {
		return program{args: []string{"cycles", fmt.Sprint("--threads=", threads), "--compute=" + compute, "--sleep=" + rest}}
	}
	limit := func(p program) program {
		period := trace.DefaultPeriod
		quota := time.Duration(between(10, 70)) * period / 100
		p.wanted.Quota, p.wanted.Period = &quota, &period
		return p
	}
	weigh := func(p program) program {
		p.weight = float64(between(25, 400)) / 100
		return p
	}
	any := func() program {
		if r.IntN(2) == 0 {
			return batch(between(1, 2))
		}
		return cycles(between(1, 2), ms(10, 60), ms(10, 60))
	}
	p := plan{kind: kinds[number%len(kinds)]}
	switch p.kind {
	case Throttled:
		p.programs = []program{limit(batch(between(1, 3)))}
	case Contended:
		p.programs = []program{weigh(any()), weigh(batch(between(1, 3)))}
	case Both:
		p.programs = []program{limit(batch(between(1, 2))), weigh(any())}
	case Bursts:
		p.programs = []program{cycles(1, ms(1, 4), ms(5, 20)), batch(1)}
	case Threads:
		p.programs = []program{cycles(between(8, 20), ms(5, 30), ms(5, 30)), weigh(any())}
	case Short:
		p.programs = []program{{args: []string{"threads", "--compute=" + ms(1, 3)}}, weigh(batch(1))}
	case Limited:
		p.programs = []program{any(), limit(batch(2)), limit(batch(1))}
	case Many:
		p.programs = []program{batch(1)}
		for range between(4, 8) {
			p.programs = append(p.programs, weigh(cycles(1, ms(5, 40), ms(5, 100))))
		}
	case Outside:
		p.programs, p.outside = []program{any()}, spin
	case Kernel:
		p.programs, p.outside = []program{any()}, flood
	case RealTime:
		part := between(10, 50)
		p.programs = []program{any()}
		p.outside = func(ctx context.Context, cpu, _ cpuset.CPU) {
			spinRealTime(ctx, cpu, time.Duration(part)*time.Millisecond/10)
		}
	case Alone:
		other := batch(2)
		other.otherCPU = true
		p.programs = []program{cycles(1, ms(10, 60), ms(10, 60)), other}
	}
	return p
}
