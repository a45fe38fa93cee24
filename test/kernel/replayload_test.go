package kernel

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
)

// A program is a load whose times do not depend on how it is served, and the limits under which it
// is played. The same seed gives the same script.
type program struct {
	name    string
	threads int
	// next returns a thread's next burst: when it begins, relative to the beginning of the previous
	// one, and how long it works.
	next   func(*rand.Rand, *client) (after, work time.Duration)
	limits []bandwidth.Limits
}

// client is a thread that is on until a time of the script.
type client struct{ at, until time.Duration }

// programs use a quarter of a CPU on average. Because of their batches, 45 ms at once or a sequence
// of small ones, some periods need several times that.
func programs() []program {
	limits := func(pairs ...[2]time.Duration) (all []bandwidth.Limits) {
		for _, p := range pairs {
			all = append(all, bandwidth.Limits{Quota: p[0] * ms, Period: 100 * ms, Burst: p[1] * ms})
		}
		return all
	}
	return []program{
		{"45 ms every 170 ms", 1, periodic, limits([2]time.Duration{30, 0}, [2]time.Duration{30, 10}, [2]time.Duration{30, 30})},
		{"exponential", 1, exponential, limits([2]time.Duration{40, 0}, [2]time.Duration{40, 20}, [2]time.Duration{40, 40})},
		{"on and off", 2, onOff, limits([2]time.Duration{35, 0}, [2]time.Duration{35, 20}, [2]time.Duration{35, 35})},
	}
}

func periodic(*rand.Rand, *client) (after, work time.Duration) { return 170 * ms, 45 * ms }

// exponential is batches of 15 ms on average at exponentially distributed intervals, 60 ms on
// average.
func exponential(random *rand.Rand, _ *client) (after, work time.Duration) {
	return randomTime(random, 60*ms), ms + randomTime(random, 14*ms)
}

// onOff works 6 ms in each 20 ms while it is on: 300 ms on, 400 ms off on average.
func onOff(random *rand.Rand, c *client) (after, work time.Duration) {
	after = 20 * ms
	if c.at+after > c.until {
		after += randomTime(random, 400*ms)
		c.until = c.at + after + randomTime(random, 300*ms)
	}
	return after, 6 * ms
}

func randomTime(random *rand.Rand, mean time.Duration) time.Duration {
	return time.Duration(random.ExpFloat64() * float64(mean))
}

// script returns a random script of the program for a length of time.
func (p program) script(threads int, length time.Duration) script {
	random := rand.New(rand.NewPCG(5, 8))
	s := make(script, threads)
	for i := range p.threads {
		var c client
		for {
			after, work := p.next(random, &c)
			if c.at += after; c.at+work >= length {
				break
			}
			s[i%threads] = append(s[i%threads], at(c.at, work))
		}
	}
	for _, bursts := range s { // a thread can play several clients
		slices.SortFunc(bursts, func(a, b Burst) int { return cmp.Compare(a.Start, b.Start) })
	}
	return s
}

// work returns the total CPU time of a script.
func (s script) work() (sum time.Duration) {
	for _, bursts := range s {
		for _, b := range bursts {
			sum += b.Work
		}
	}
	return sum
}
