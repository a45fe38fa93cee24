package verdict

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sort"
	"sync"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/demand"
)

// shape is a model of how demand varies from period to period around its average.
type shape struct {
	family family
	active float64 // the share of bursts in which there is demand
	length int     // of bursts, in periods, on average
	spread float64 // of the demand in those, 0 (constant) to 1
}

// family is a kind of distribution.
type family int

const (
	gamma family = iota
	lognormal
	families
)

const (
	spreads = 14
	// least and most are how many periods are simulated for each shape and load, so that there are about
	// [bursts] bursts with demand.
	least, most, bursts = 16_000, 160_000, 300
	// block is in how many of them the throttled periods are counted, to know how much counts vary.
	block = 200
	// quota is that of a simulated period, in units that make rounding irrelevant.
	quota = 1 << 20
)

// lengths are the lengths of bursts, in periods, and actives the shares of bursts with demand.
func lengths() []int { return []int{1, 3, 10, 30} }
func actives() []float64 {
	return []float64{1, .75, .55, .4, .28, .2, .14, .1, .07, .05, .035, .025, .017, .012, .008, .0055, .004, .0028, .002}
}

// rarest is between how many periods a burst with demand begins at most, on average.
const rarest = 3000

// simulated returns how many periods of a shape are simulated.
func (s shape) simulated() int {
	n := min(most, max(least, int(float64(bursts*s.length)/s.active)))
	return (n + block - 1) / block * block
}

// loads are the averages of which throttling is known, as multiples of the quota.
var loads = sync.OnceValue(func() []float64 {
	const n = 16
	all := make([]float64, n)
	for i := range all {
		all[i] = .005 * math.Pow(.995/.005, float64(i)/(n-1))
	}
	return all
})

// draw returns the function that draws factors with mean 1.
func (s shape) draw() func(*rand.Rand) float64 {
	when := func(*rand.Rand) float64 { return 1 }
	switch {
	case s.spread == 0:
	case s.family == gamma:
		d, _ := demand.NewGamma(gammaShape(s.spread), 1) // the parameters are valid
		when = d.Draw
	default:
		d, _ := demand.NewLognormal(sigma(s.spread), 1)
		when = d.Draw
	}
	return func(r *rand.Rand) float64 {
		if r.Float64() >= s.active {
			return 0
		}
		return when(r) / s.active
	}
}

// gammaShape returns the shape parameter of a Gamma distribution, and sigma that of a lognormal one.
func gammaShape(spread float64) float64 { return 30 * math.Pow(.05/30, spread) }
func sigma(spread float64) float64      { return 2.5 * spread }

// factors returns the factors of consecutive periods. Their mean is 1.
func (s shape) factors() []float64 {
	r := rand.New(rand.NewPCG(uint64(s.family)<<32|uint64(s.length), math.Float64bits(s.spread+2*s.active)))
	draw, all, sum := s.draw(), make([]float64, s.simulated()), 0.
	for i := 0; i < len(all); {
		factor := draw(r)
		for more := true; more && i < len(all); i++ {
			all[i] = factor
			sum += factor
			more = r.Float64() >= 1/float64(s.length)
		}
	}
	if sum == 0 {
		all[0], sum = 1, 1
	}
	for i := range all {
		all[i] *= float64(len(all)) / sum
	}
	return all
}

// throttling is what a shape leads to, by the load.
type throttling struct {
	shape
	shares [2][]float64 // of throttled periods, without and with a burst of 100%
	ran    []float64    // the share of periods that the bandwidth timer counts, without a burst
	// clusters is by how much the number of throttled periods of a time varies around what the CPU time that was
	// wanted in it explains: the variance divided by the mean, without a burst.
	clusters []float64
}

// simulate simulates a shape at all loads.
func simulate(s shape) throttling {
	t := throttling{shape: s}
	factors := s.factors()
	for _, load := range loads() {
		var throttled [2]int
		var ran, now int
		var blocks sum
		var wanted float64
		var before bool // there was something to do in the period before
		next := func(debt int64, factor float64) int64 {
			return min(bandwidth.NextDebt(debt, int64(factor*load*quota), quota), math.MaxInt64/4)
		}
		debt := int64(0)
		for _, factor := range factors[len(factors)-len(factors)/8:] { // to begin with what is left at the end
			debt = next(debt, factor)
		}
		for i, factor := range factors {
			runs := factor > 0 || debt > 0
			if runs || before { // the timer ends after a period without anything to do
				ran++
			}
			before = runs
			debt = next(debt, factor)
			for burst := range throttled {
				if debt > int64(burst)*quota {
					throttled[burst]++
				}
			}
			if wanted += factor * load; (i+1)%block == 0 {
				blocks.add(wanted, float64(throttled[0]-now))
				wanted, now = 0, throttled[0]
			}
		}
		for burst, n := range throttled {
			t.shares[burst] = append(t.shares[burst], float64(n)/float64(len(factors)))
		}
		t.ran = append(t.ran, float64(ran)/float64(len(factors)))
		t.clusters = append(t.clusters, blocks.clusters())
	}
	for burst := range t.shares {
		ascend(t.shares[burst])
	}
	return t
}

// ascend makes numbers ascend: with few throttled periods, chance can make fewer of them at a higher load.
func ascend(all []float64) {
	for i := range all[1:] {
		all[i+1] = max(all[i], all[i+1])
	}
}

// at returns the share at a load: at 1 and more all periods are throttled.
func (t *throttling) at(load float64, burst int) float64 {
	all, shares := loads(), t.shares[burst]
	last := len(all) - 1
	switch {
	case load >= 1:
		return 1
	case load <= all[0]:
		return shares[0] * max(0, load) / all[0]
	case load >= all[last]:
		return shares[last] + (1-shares[last])*(load-all[last])/(1-all[last])
	}
	return along(shares, load)
}

// along interpolates figures of loads. Beyond the ends it returns those of the ends.
func along(figures []float64, load float64) float64 {
	all := loads()
	i := sort.SearchFloat64s(all, load)
	switch i {
	case 0:
		return figures[0]
	case len(all):
		return figures[i-1]
	}
	return between(figures[i-1], figures[i], (load-all[i-1])/(all[i]-all[i-1]))
}

func between(a, b, part float64) float64 { return a + part*(b-a) }

// mix returns a shape between two of a family and a length of bursts.
func mix(a, b *throttling, part float64) throttling {
	figures := func(a, b []float64) (all []float64) {
		for i := range a {
			all = append(all, between(a[i], b[i], part))
		}
		return all
	}
	t := throttling{shape: a.shape, ran: figures(a.ran, b.ran), clusters: figures(a.clusters, b.clusters)}
	t.spread = between(a.spread, b.spread, part)
	t.active = a.active * math.Pow(b.active/a.active, part)
	for burst := range t.shares {
		t.shares[burst] = figures(a.shares[burst], b.shares[burst])
	}
	return t
}

// kind is a family with a length of bursts and a share of those with demand: the shapes of all spreads,
// the smallest first.
type kind []throttling

// kinds simulates all shapes, once in the life of a process. It takes about five seconds of CPU time.
var kinds = sync.OnceValue(func() []kind {
	var all []kind
	for f := range families {
		for _, active := range actives() {
			for _, length := range lengths() {
				if float64(length)/active > rarest {
					continue
				}
				k := make(kind, spreads)
				for n := range k {
					k[n].shape = shape{f, active, length, float64(n) / (spreads - 1)}
				}
				all = append(all, k)
			}
		}
	}
	var group sync.WaitGroup
	for part := range slices.Chunk(all, 1+len(all)/(4*runtime.GOMAXPROCS(0))) {
		group.Go(func() {
			for _, k := range part {
				for i := range k {
					k[i] = simulate(k[i].shape)
				}
			}
		})
	}
	group.Wait()
	return all
})
