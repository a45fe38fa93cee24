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

// iterate is the slow reference: it carries the law of V from period to period until it stays,
// for demand of weights[k] at k/n, and returns P(V > k/n).
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

// drawLattice draws demand on a lattice of n points, of mean below .85.
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
	// Enough at 0 to bring the mean down.
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

// On its lattice demand has bounds that meet, at the reference; on a coarser one they
// contain it.
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
			if steps == 4 && err != nil { // rounding up may be too much
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
				if steps%n == 0 && got[i].Width() > 1e-9 {
					t.Errorf("%d steps, burst %v: the bounds %v and %v should meet", steps, b, got[i].Lower, got[i].Upper)
				}
			}
		}
	})
}

// A burst is on the lattice when it is but for rounding: 0.29 * 400 is a bit below 116, where
// 0.07 * 400 is a bit above 28. Poisson demand lies on the lattice, and so bounds meet.
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

// Requests of which two and a half fill a quota come on a lattice, too.
func TestFractionsOfALattice(t *testing.T) {
	bursts := []float64{0, .2, .4, 1}
	for _, per := range []string{"2.5", "0.3", "1.75"} {
		got, _, err := lindley.Bounds(must(t, "poisson", per, ".8"), bursts, 0)
		if err != nil {
			t.Fatal(per, err)
		}
		for _, x := range got {
			if x.Width() > 1e-9 {
				t.Errorf("%s per quota, burst %v: %v to %v", per, x.Burst, x.Lower, x.Upper)
			}
		}
	}
}

// Tails whose probability is lost in rounding, and much of the mean with it, are not counted as
// none. A container works whenever something is left to do, which is for the share u of the time
// at least: where demand is rare and huge, it is throttled nearly as long.
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

// The closed form comes out to 1e-9, and lies inside the bounds at every step size.
func TestExponential(t *testing.T) {
	bursts := []float64{0, .3, 1, 2, 4, 7.77}
	for _, u := range []float64{.05, .3, .5, .7, .9} {
		d := must(t, "exponential", fmt.Sprint(u))
		for _, steps := range []int{16, 32, 50, 128, 256} {
			got, err := lindley.Solve(d, bursts, steps)
			if err != nil {
				t.Fatal(err)
			}
			for i, b := range bursts {
				checkBracket(t, u, steps, got.Throttling[i], lindley.Exponential(u, b))
				if p := got.Throttling[i].Probability; steps == 256 && u >= .3 && math.Abs(p-lindley.Exponential(u, b)) > 1e-9 {
					t.Errorf("u=%v burst %v: %v, want %v", u, b, p, lindley.Exponential(u, b))
				}
			}
			rounded, _, err := lindley.Bounds(disguised{d}, bursts, steps)
			if u == .9 && steps == 16 && err != nil { // 1/16 is too much for it
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			for i, b := range bursts {
				checkBracket(t, u, steps, rounded[i], lindley.Exponential(u, b))
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

// Of the issue: sigma at four loads.
func TestClosedForm(t *testing.T) {
	for u, want := range map[float64]float64{.3: .04088226, .5: .20318787, .7: .46699642, .9: .80689983} {
		if got := lindley.Exponential(u, 0); math.Abs(got-want) > 5e-9 {
			t.Errorf("u=%v: sigma %v, want %v", u, got, want)
		}
	}
}

// Tails of 1e-9 and below.
func TestSmallTails(t *testing.T) {
	for u, burst := range map[float64]float64{.3: 6, .5: 13, .7: 26} {
		want := lindley.Exponential(u, burst)
		got, _, err := lindley.Estimate(must(t, "exponential", fmt.Sprint(u)), []float64{burst}, 0)
		if err != nil || math.Abs(got[0]-want) > 1e-6*want {
			t.Errorf("u=%v burst %v: %v, want %v, %v", u, burst, got, want, err)
		}
	}
}

// Without a closed form, eight times as many steps are the reference.
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

// Bounds of each step size contain the estimate with far more steps, for demand of all
// kinds, also when nothing is known of it but the CDF.
func TestBoundsContainFineEstimate(t *testing.T) {
	for _, kind := range []string{"pareto 4 %v", "pareto 3 %v", "gamma .5 %v", "gamma 3 %v", "gamma 30 %v", "lognormal .4 %v"} {
		for _, u := range []float64{.28125, .7, .85} {
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
	for _, steps := range []int{32, 64, 98} {
		got, method, err := lindley.Bounds(shown, bursts, steps)
		if err != nil {
			t.Fatal(name, err)
		}
		for i, b := range bursts {
			// The estimate has an error of its own, 1e-6 of it at the most.
			if got[i].Lower > want[i]*(1+1e-6)+1e-13 || got[i].Upper < want[i]*(1-1e-6)-1e-13 {
				t.Errorf("%s, %d steps, burst %v, %s: %v to %v, estimate %v", name, steps, b, method.Name, got[i].Lower, got[i].Upper, want[i])
			}
		}
	}
}

// More burst and less demand never mean more throttling.
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

// Demand that never exceeds the quota is never throttled, however near it comes.
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

// claimed is exponential demand that claims another mean.
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

// One group with its tokens and its backlog, as the kernel's controller has them.
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
