package lindley_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/demand"
	"pinfold.dev/pinfold/core/interference/lindley"
)

// iterate is the slow reference implementation. For demand of weights[k] at k/n, it computes the
// distribution of V period by period until it is stationary, and returns P(V > k/n).
func iterate(weights []float64, n int) []float64 {
	const length = 4000
	v := make([]float64, length)
	v[0] = 1
	for changed := 1.0; changed > 1e-13; {
		next := make([]float64, length)
		for i, p := range v {
			if p < 1e-17 {
				continue
			}
			for k, w := range weights {
				next[min(max(i+k-n, 0), length-1)] += p * w
			}
		}
		changed = 0
		for i := range v {
			changed += math.Abs(v[i] - next[i])
		}
		v = next
	}
	tails, beyond := make([]float64, length), 0.0
	for k := length - 1; k >= 0; k-- {
		tails[k] = beyond
		beyond += v[k]
	}
	return tails
}

// drawLattice draws demand on a lattice of n points with a mean below .85.
func drawLattice(t *rapid.T, n int) (values, []float64) {
	weights := make([]float64, 3*n)
	for range rapid.IntRange(1, 6).Draw(t, "count") {
		weights[rapid.IntRange(0, len(weights)-1).Draw(t, "point")] += float64(rapid.IntRange(1, 9).Draw(t, "weight"))
	}
	total, mean := 0.0, 0.0
	for k, w := range weights {
		total += w
		mean += w * float64(k) / float64(n)
	}
	// Increase P(X = 0) until the mean is low enough.
	idle := max(mean/.85-total, 0)
	weights[0] += idle
	var v values
	for k := range weights {
		weights[k] /= total + idle
		if weights[k] > 0 {
			v = append(v, value{amount: float64(k) / float64(n), weight: weights[k]})
		}
	}
	return v, weights
}

// TestBoundsContainIteration: for demand on the lattice the bounds meet at the reference; on a
// coarser lattice they contain it.
func TestBoundsContainIteration(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const n = 8
		d, weights := drawLattice(t, n)
		if d.Mean() <= 0 {
			t.Skip("no demand")
		}
		want := iterate(weights, n)
		bursts := []float64{0, .125, .5, 1, 1.9, 3}
		for _, steps := range []int{4, 8, 32, 20} {
			got, _, err := lindley.Bounds(d, bursts, steps)
			if steps == 4 && err != nil { // demand rounded up may exceed the quota
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			for i, b := range bursts {
				p, rounding := want[int(b*n)], 1e-10
				if got[i].Lower > p+rounding || got[i].Upper < p-rounding {
					t.Errorf("%d steps, burst %v: %v to %v does not contain %v", steps, b, got[i].Lower, got[i].Upper, p)
				}
				if steps%n == 0 && width(got[i]) > 5e-9 { // 1.2e-9 for 3/7 at 9/8 of a quota, and 4/7 at 0
					t.Errorf("%d steps, burst %v: the bounds %v and %v should meet", steps, b, got[i].Lower, got[i].Upper)
				}
			}
		}
	})
}

// TestBurstsOnTheLattice: a burst that misses a lattice point by a rounding error counts as on it.
// 0.29 * 400 is slightly below 116, and 0.07 * 400 slightly above 28. The bounds of Poisson demand
// meet there, because it is on the lattice.
func TestBurstsOnTheLattice(t *testing.T) {
	d := must(t, "poisson", "100", ".9")
	for b := 1; b <= 120; b++ {
		at := float64(b) / 100
		got, _, err := lindley.Bounds(d, []float64{at, at + 1e-6}, 400)
		if err != nil {
			t.Fatal(err)
		}
		if got[0].Lower > got[1].Upper || got[1].Lower > got[0].Upper {
			t.Errorf("burst %v: %v to %v, and just above it %v to %v", at, got[0].Lower, got[0].Upper, got[1].Lower, got[1].Upper)
		}
	}
}

// TestFractionsOfALattice: requests of which 2.5 fill a quota are on a lattice, too.
func TestFractionsOfALattice(t *testing.T) {
	bursts := []float64{0, .2, .4, 1}
	for _, per := range []string{"2.5", "0.3", "1.75"} {
		got, _, err := lindley.Bounds(must(t, "poisson", per, ".8"), bursts, 0)
		if err != nil {
			t.Fatal(per, err)
		}
		for _, x := range got {
			if width(x) > 1e-9 {
				t.Errorf("%s per quota, burst %v: %v to %v", per, x.Burst, x.Lower, x.Upper)
			}
		}
	}
}

// TestUnseenTails: a tail whose probability is lost in rounding, and much of the mean with it,
// still counts. A group is busy for the share u of the time at least, so if demand is rare and
// huge, it is throttled for nearly that long.
func TestUnseenTails(t *testing.T) {
	for _, name := range []string{"lognormal 10 .5", "lognormal 30 .003", "pareto 1.0001 .5", "pareto 1.01 .5"} {
		u := must(t, strings.Fields(name)...).Mean()
		for _, shown := range []string{"", "disguised "} {
			got, _, err := lindley.Bounds(must(t, strings.Fields(shown+name)...), []float64{0, 1}, 1024)
			if err != nil {
				if !errors.Is(err, lindley.ErrUncertain) {
					t.Error(shown+name, err)
				}
				continue
			}
			if got[0].Upper < .5*u {
				t.Errorf("%s: at most %v, with mean %v", shown+name, got[0].Upper, u)
			}
		}
	}
}

// TestExponential: the estimate equals the closed form to 1e-9, and the bounds contain it at every
// number of steps.
func TestExponential(t *testing.T) {
	bursts := []float64{0, .3, 1, 2, 4, 7.77}
	for _, u := range []float64{.05, .3, .5, .7, .9} {
		d := must(t, "exponential", fmt.Sprint(u))
		for _, steps := range []int{16, 50, 256} {
			got, err := lindley.Solve(d, bursts, steps)
			if err != nil {
				t.Fatal(err)
			}
			for i, b := range bursts {
				checkBracket(t, u, steps, got.Throttling[i], closedForm(u, b))
				if p := got.Throttling[i].Probability; steps == 256 && u >= .3 && math.Abs(p-closedForm(u, b)) > 1e-9 {
					t.Errorf("u=%v burst %v: %v, want %v", u, b, p, closedForm(u, b))
				}
			}
			rounded, _, err := lindley.Bounds(disguised{d}, bursts, steps)
			if u == .9 && steps == 16 && err != nil { // demand rounded up by 1/16 exceeds the quota
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			for i, b := range bursts {
				checkBracket(t, u, steps, rounded[i], closedForm(u, b))
			}
		}
	}
}

func checkBracket(t testing.TB, u float64, steps int, got lindley.Throttling, want float64) {
	t.Helper()
	if !(got.Lower <= want*(1+1e-9)+1e-15 && want*(1-1e-9)-1e-15 <= got.Upper) {
		t.Errorf("u=%v, %d steps, burst %v: %v to %v does not contain %v", u, steps, got.Burst, got.Lower, got.Upper, want)
	}
}

// closedForm solves for exponential demand of mean u in closed form: sigma^(1+burst), where sigma =
// exp(-(1-sigma)/u).
func closedForm(u, burst float64) float64 {
	low, high := 0.0, 1-1e-15 // excludes the other solution, sigma = 1
	for range 200 {
		sigma := (low + high) / 2
		if math.Exp(-(1-sigma)/u) > sigma {
			low = sigma
		} else {
			high = sigma
		}
	}
	return math.Pow((low+high)/2, 1+burst)
}

func width(t lindley.Throttling) float64 { return t.Upper - t.Lower }

// TestSmallTails has probabilities of 1e-9 and below.
func TestSmallTails(t *testing.T) {
	for u, burst := range map[float64]float64{.3: 6, .5: 13, .7: 26} {
		want := closedForm(u, burst)
		got, _, err := lindley.Estimate(must(t, "exponential", fmt.Sprint(u)), []float64{burst}, 0)
		if err != nil || math.Abs(got[0]-want) > 1e-6*want {
			t.Errorf("u=%v burst %v: %v, want %v, %v", u, burst, got, want, err)
		}
	}
}

// TestEstimateHasConverged compares demand without a closed form with the estimate at eight times
// as many steps.
func TestEstimateHasConverged(t *testing.T) {
	bursts := []float64{0, .3, 1, 2, 4}
	for _, name := range []string{"pareto 4 .7", "gamma 2 .7", "lognormal .5 .7"} {
		d := must(t, strings.Fields(name)...)
		got, _, err := lindley.Estimate(d, bursts, 0)
		if err != nil {
			t.Fatal(name, err)
		}
		want, _, err := lindley.Estimate(d, bursts, 8*lindley.DefaultSteps)
		if err != nil {
			t.Fatal(name, err)
		}
		for i := range bursts {
			if math.Abs(got[i]-want[i]) > 1e-6*want[i] {
				t.Errorf("%s burst %v: %v, with more steps %v", name, bursts[i], got[i], want[i])
			}
		}
	}
}

// TestBoundsContainFineEstimate: the bounds at every number of steps contain the estimate at far
// more steps, for all kinds of demand, also if only the CDF is known.
func TestBoundsContainFineEstimate(t *testing.T) {
	for _, kind := range []string{"pareto 4 %v", "pareto 3 %v", "gamma .5 %v", "gamma 3 %v", "gamma 30 %v", "lognormal .4 %v"} {
		for _, u := range []float64{.28125, .85} {
			d := must(t, strings.Fields(fmt.Sprintf(kind, u))...)
			checkFine(t, fmt.Sprintf(kind, u), d, d)
			checkFine(t, fmt.Sprintf(kind, u)+" disguised", d, disguised{d})
		}
	}
}

func checkFine(t *testing.T, name string, d, shown demand.Distribution) {
	bursts := []float64{0, .4, 1, 3}
	want, _, err := lindley.Estimate(d, bursts, 512)
	if err != nil {
		t.Fatal(name, err)
	}
	for _, steps := range []int{32, 98} {
		got, method, err := lindley.Bounds(shown, bursts, steps)
		if err != nil {
			t.Fatal(name, err)
		}
		for i, b := range bursts {
			// The relative error of the estimate is up to 1e-6.
			if got[i].Lower > want[i]*(1+1e-6)+1e-13 || got[i].Upper < want[i]*(1-1e-6)-1e-13 {
				t.Errorf("%s, %d steps, burst %v, %s: %v to %v, estimate %v", name, steps, b, method.Name, got[i].Lower, got[i].Upper, want[i])
			}
		}
	}
}

// TestMonotone: more burst or less demand never increases throttling.
func TestMonotone(t *testing.T) {
	bursts := []float64{0, .25, .5, 1, 1.5, 2, 4, 8, math.Inf(1)}
	for _, kind := range []string{"exponential %v", "pareto 4 %v", "gamma 3 %v", "poisson 10 %v"} {
		before := make([]float64, len(bursts))
		for _, u := range []float64{.1, .3, .5, .7, .8, .9} {
			got, err := lindley.Solve(must(t, strings.Fields(fmt.Sprintf(kind, u))...), bursts, 64)
			if err != nil {
				t.Fatal(err)
			}
			for i, x := range got.Throttling {
				if i > 0 && x.Probability > got.Throttling[i-1].Probability {
					t.Errorf("%s u=%v: burst %v is throttled more than burst %v", kind, u, x.Burst, bursts[i-1])
				}
				if x.Probability < before[i]-1e-12 {
					t.Errorf("%s burst %v: u=%v is throttled less than a lower one", kind, x.Burst, u)
				}
				before[i] = x.Probability
			}
		}
	}
}

// TestNeverThrottled: demand that never exceeds the quota is never throttled, however close it
// comes.
func TestNeverThrottled(t *testing.T) {
	for _, d := range []string{"constant .3", "constant .99999", "values .1 .5 1 .5", "values .9999 1"} {
		got, err := lindley.Solve(must(t, strings.Fields(d)...), []float64{0, 1}, 16)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range got.Throttling {
			if x.Probability != 0 || x.Upper != 0 {
				t.Errorf("%s: %+v", d, x)
			}
		}
	}
}

// claimed is a distribution that states a different mean.
type claimed struct {
	demand.Distribution
	mean float64
}

func (c claimed) Mean() float64 { return c.mean }

func TestErrors(t *testing.T) {
	exponential := must(t, "exponential", ".5")
	for mean, want := range map[float64]error{
		math.NaN(): lindley.ErrDemand, 0: lindley.ErrDemand, -1: lindley.ErrDemand, .6: lindley.ErrDemand,
		1: lindley.ErrUnstable, math.Inf(1): lindley.ErrUnstable, .5: nil,
	} {
		_, err := lindley.Solve(claimed{exponential, mean}, []float64{0}, 64)
		if !errors.Is(err, want) {
			t.Errorf("mean %v: %v, want %v", mean, err, want)
		}
	}
	if _, err := lindley.Solve(must(t, "pareto", "1.02", ".7"), []float64{0}, 64); !errors.Is(err, lindley.ErrUncertain) {
		t.Error(err)
	}
	if _, err := lindley.Solve(must(t, "exponential", ".9999999"), []float64{0}, 64); !errors.Is(err, lindley.ErrUncertain) {
		t.Error(err)
	}
}

// TestMonteCarlo simulates one group with tokens and backlog, as the kernel's controller keeps
// them.
func TestMonteCarlo(t *testing.T) {
	const batches, periods = 200, 5000
	bursts := []float64{0, .5, 1, 2}
	for _, name := range []string{"exponential .7", "pareto 4 .8", "poisson 10 .8", "gamma 3 .9"} {
		d := must(t, strings.Fields(name)...)
		want, err := lindley.Solve(d, bursts, 256)
		if err != nil {
			t.Fatal(err)
		}
		for i, burst := range bursts {
			r := rand.New(rand.NewPCG(5, uint64(i)))
			tokens, backlog, sum, squares := burst, 0.0, 0.0, 0.0
			for range batches {
				throttled := 0
				for range periods {
					need := backlog + d.Draw(r)
					used := min(need, 1+tokens)
					backlog, tokens = need-used, min(burst, tokens+1-used)
					if backlog > 1e-9 {
						throttled++
					}
				}
				ratio := float64(throttled) / periods
				sum += ratio
				squares += ratio * ratio
			}
			mean := sum / batches
			deviation := math.Sqrt((squares/batches - mean*mean) / batches)
			if p := want.Throttling[i].Probability; math.Abs(mean-p) > 4*deviation {
				t.Errorf("%s burst %v: %v +- %v of the periods, want %v", name, burst, mean, deviation, p)
			}
		}
	}
}
