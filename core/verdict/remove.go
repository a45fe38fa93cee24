package verdict

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Neighbour is another container on a node: its average use in CPUs, and how many it can have at most, 0 if
// that is not limited.
type Neighbour struct{ CPUs, Most float64 }

// parts is into how many parts a node's CPUs are divided to add up demands.
const parts = 128

// Tail is how often a container, at most, wants more than a part of a node's CPUs.
type Tail struct {
	cpus  float64
	above [parts + 1]float64 // the share of periods with more than cpus*n/parts
	later float64            // periods in which others wait because it wanted more than all before
}

// Tail returns how often the container wants more than each part of a node's CPUs if it has no limit. Of the
// models that agree with its counters, the one that wants most counts. The result is nil if there is none.
func (v *Verdict) Tail(cpus float64) *Tail {
	if len(v.demands) == 0 || cpus <= 0 {
		return nil
	}
	t := &Tail{cpus: cpus}
	for i := range v.demands {
		d, later := v.demands[i], 0.
		for n := range t.above {
			t.above[n] = max(t.above[n], d.above(v.Limit, cpus*float64(n)/parts))
		}
		for n := 2.; n < 32; n++ {
			later += d.above(v.Limit, n*cpus)
		}
		t.later = max(t.later, later)
	}
	return t
}

// Delayed returns the share of periods, at most, in which neighbours on the node would wait for the
// container if it had no limit: those in which all together want more than its CPUs.
//
// Of neighbours, only averages are known, and the most that each can have. Chernoff's bound says how
// often their sum is large at most, whatever they want from period to period. It takes the demands of
// containers to be independent.
func (t *Tail) Delayed(neighbours []Neighbour) float64 {
	others, share := t.others(neighbours), t.later
	for n := range parts { // it wants more than n parts, and not more than n+1
		share += (t.above[n] - t.above[n+1]) * others[parts-n-1]
	}
	return min(1, share+t.above[parts])
}

// others returns a bound of how likely it is that neighbours want n parts of the node's CPUs or more.
func (t *Tail) others(neighbours []Neighbour) (all [parts + 1]float64) {
	for n := range all {
		all[n] = 1
	}
	if len(neighbours) == 0 {
		return [parts + 1]float64{0: 1}
	}
	const steps = 40
	for step := range steps {
		rate := .05 * math.Pow(4000, float64(step)/(steps-1)) / t.cpus // the parameter of the bound
		moment := 0.
		for _, one := range neighbours {
			most := t.cpus
			if one.Most > 0 {
				most = min(t.cpus, one.Most)
			}
			on := min(1, one.CPUs/most) // of all that have this average, what is on or off varies most
			moment += math.Log1p(on * math.Expm1(rate*most))
		}
		for n := range all {
			all[n] = min(all[n], math.Exp(moment-rate*t.cpus*float64(n)/parts))
		}
	}
	return all
}

// demander says how often a container whose limit was given wants more than that many CPUs.
type demander interface {
	above(limit, cpus float64) float64
}

// demanded is a model of a container's demand that agrees with its counters.
type demanded struct {
	shape
	sums []sum
}

// above implements [demander].
func (d *demanded) above(limit, cpus float64) float64 {
	cpus = max(cpus, 1e-9)
	var share, periods float64
	for i := range d.sums {
		if mean := d.sums[i].load * limit; mean > 0 {
			share += d.sums[i].periods * d.survival(cpus/mean)
		}
		periods += d.sums[i].periods
	}
	return share / periods
}

// survival returns how likely a factor is more than x.
func (s shape) survival(x float64) float64 {
	x *= s.active
	if s.spread == 0 {
		if x < 1 {
			return s.active
		}
		return 0
	}
	if s.family == gamma {
		k := gammaShape(s.spread)
		return s.active * distuv.Gamma{Alpha: k, Beta: k}.Survival(x)
	}
	sigma := sigma(s.spread)
	return s.active * distuv.LogNormal{Mu: -sigma * sigma / 2, Sigma: sigma}.Survival(x)
}
