package verdict

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestOthers: the bound is one of on-off demand, of constant demand, and of demand in between, and not far above the
// first.
func TestOthers(t *testing.T) {
	const cpus, draws = 4, 100_000
	var neighbours []Neighbour
	for range 100 {
		neighbours = append(neighbours, Neighbour{.02, 1})
	}
	bound := (&Tail{cpus: cpus}).others(neighbours)
	r := rand.New(rand.NewPCG(1, 2))
	for _, on := range []float64{.02, .1, 1} { // the part of the time in which each wants something
		var drawn [parts + 1]float64
		for range draws {
			sum := 0.
			for range neighbours {
				if r.Float64() < on {
					sum += .02 / on
				}
			}
			for n := range drawn {
				if sum >= cpus*float64(n)/parts {
					drawn[n] += 1. / draws
				}
			}
		}
		for n := range drawn {
			if drawn[n] > bound[n]+.001 || on == .02 && drawn[n] > .01 && bound[n] > 10*drawn[n] {
				t.Errorf("on %v of the time: %v or more CPUs are wanted in %.4f, and the bound is %.4f", on, cpus*float64(n)/parts, drawn[n], bound[n])
			}
		}
	}
	if none := (&Tail{cpus: cpus}).others(nil); none[0] != 1 || none[1] != 0 {
		t.Errorf("%v", none)
	}
}

// TestSurvival compares the probability of demands with drawn ones.
func TestSurvival(t *testing.T) {
	for f := range families {
		for _, s := range []shape{{f, 1, 1, 0}, {f, .25, 1, 0}, {f, .45, 3, .3}, {f, 1, 1, .7}} {
			factors := s.factors()
			for _, x := range []float64{.5, 1.5, 3, 6} {
				n := 0
				for _, factor := range factors {
					if factor > x {
						n++
					}
				}
				if got, want := s.survival(x), float64(n)/float64(len(factors)); math.Abs(got-want) > .03 {
					t.Errorf("%+v above %v: %.3f, drawn %.3f", s, x, got, want)
				}
			}
		}
	}
}

// TestDelayed: on a large idle node, no neighbour waits for a container that wants three CPUs at once. On a
// small node they wait. If the demand is not known, there is no answer.
func TestDelayed(t *testing.T) {
	v := Of(counters(1, 100, shape{gamma, .25, 3, 0}.demand(.75)), .01)
	if v.Action != Raise && v.Action != Unknown {
		t.Fatalf("%+v", v)
	}
	few := []Neighbour{{.2, 1}, {.1, .5}}
	large, small := v.Tail(64).Delayed(few), v.Tail(2).Delayed(few)
	if large > .001 || small < .1 {
		t.Errorf("others wait in %.4f of the periods on a large node, and in %.4f on a small one", large, small)
	}
	changed := v
	if changed.WithoutLimit(large); changed.Action != Remove || changed.Predicted != nil || changed.Advised != 0 {
		t.Errorf("%+v", changed)
	}
	if v.WithoutLimit(small); v.Action == Remove {
		t.Errorf("%+v", v)
	}
	full := Of(counters(1, 50, shape{gamma, 1, 1, .5}.demand(1.5)), .01)
	if full.Tail(64) != nil {
		t.Error("the demand is not known if the limit is always full")
	}
}
