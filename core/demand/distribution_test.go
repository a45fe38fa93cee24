package demand

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat"

	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/must"
)

// TestScenarios runs testdata/scenarios/*.txt. A line is a distribution with its parameters, or
// "cdf" with points at which to evaluate the last distribution.
func TestScenarios(t *testing.T) {
	golden.Scenarios(t, "testdata/scenarios/*.txt", func(t *testing.T, text string) string {
		var last Distribution
		got := golden.Blocks(t, text, func(words []string) (string, error) {
			if words[0] == "cdf" {
				points, err := numbers(words[1:])
				for i, x := range points {
					points[i] = last.CDF(x)
				}
				return join(points) + "\n", err
			}
			d, err := parse(words)
			if err == nil {
				last = d
				return "mean " + join([]float64{d.Mean()}) + "\n", nil
			}
			return "error: " + err.Error() + "\n", nil
		})
		return got
	})
}

const (
	draws = 200_000
	// ksBound is the Kolmogorov-Smirnov statistic, times the square root of the number of draws,
	// that one in a thousand seeds exceeds. The seeds are fixed.
	ksBound = 1.95
	// errorsBound is the largest error of a moment, in standard errors.
	errorsBound = 3.5
)

// TestDraws compares draws with the CDF and the moments for each line of testdata/draws.txt, and
// checks that the comparison detects a mean that is 3% off.
func TestDraws(t *testing.T) {
	eachDraw(t, func(t *testing.T, number int, d Distribution, variance string) {
		r := rand.New(rand.NewPCG(5, uint64(number)))
		sample := make([]float64, draws)
		for i := range sample {
			sample[i] = d.Draw(r)
		}
		checkMoments(t, d, sample, variance)
		slices.Sort(sample)
		if got := ks(sample, d.CDF); got > ksBound {
			t.Errorf("Kolmogorov-Smirnov: %.3f, want at most %v", got, ksBound)
		}
		if got := ks(sample, func(x float64) float64 { return d.CDF(x * 1.03) }); got < ksBound {
			t.Errorf("a mean that is 3%% off is not detected: %.3f", got)
		}
	})
}

// eachDraw runs a test for the distribution in each line of testdata/draws.txt.
func eachDraw(t *testing.T, test func(t *testing.T, number int, d Distribution, variance string)) {
	text := must.Get(os.ReadFile("testdata/draws.txt"))(t)
	number := 0
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		t.Run(strings.ReplaceAll(line, " ", "_"), func(t *testing.T) {
			name, variance, _ := strings.Cut(line, " variance ")
			d := must.Get(parse(strings.Fields(name)))(t)
			test(t, number, d, variance)
		})
		number++
	}
}

// ks returns the largest distance between the CDF and that of the sorted sample, times the square
// root of the sample's size. It checks both sides of atoms.
func ks(sorted []float64, cdf func(float64) float64) float64 {
	n, worst := float64(len(sorted)), 0.0
	for i := 0; i < len(sorted); {
		j := i
		for j < len(sorted) && sorted[j] == sorted[i] {
			j++
		}
		below := cdf(sorted[i] - 1e-9*(1+math.Abs(sorted[i])))
		worst = max(worst, math.Abs(cdf(sorted[i])-float64(j)/n), math.Abs(below-float64(i)/n))
		i = j
	}
	return worst * math.Sqrt(n)
}

// checkMoments compares the mean, and the variance unless it is "".
func checkMoments(t *testing.T, d Distribution, sample []float64, variance string) {
	t.Helper()
	mean, squares, fourth := stat.Mean(sample, nil), 0.0, 0.0
	for _, x := range sample {
		squares += (x - mean) * (x - mean) / draws
		fourth += math.Pow(x-mean, 4) / draws
	}
	if off := math.Abs(mean - d.Mean()); off > errorsBound*math.Sqrt(squares/draws)+1e-10 {
		t.Errorf("the mean of the draws is %v, want %v", mean, d.Mean())
	}
	if variance == "" {
		return
	}
	var want float64
	must.Get(fmt.Sscan(variance, &want))(t)
	if off := math.Abs(squares - want); off > errorsBound*math.Sqrt((fourth-squares*squares)/draws)+1e-10 {
		t.Errorf("the variance of the draws is %v, want %v", squares, want)
	}
}

// TestModes checks that CDFs are convex before the mode and concave beyond it.
func TestModes(t *testing.T) {
	eachDraw(t, func(t *testing.T, _ int, d Distribution, _ string) {
		u, ok := d.(interface{ Mode() float64 })
		if !ok {
			return
		}
		const step = 0.01
		for i := range 300 {
			x := float64(i) * step
			bend := d.CDF(x+step) - 2*d.CDF(x) + d.CDF(x-step)
			if x+step <= u.Mode() && bend < -1e-12 || x-step >= u.Mode() && bend > 1e-12 {
				t.Fatalf("the CDF bends by %g at %g, but the mode is %g", bend, x, u.Mode())
			}
		}
		if c, n := d.CDF(u.Mode()+0.002)-d.CDF(u.Mode()), d.CDF(u.Mode()+0.201)-d.CDF(u.Mode()+0.199); c <= n {
			t.Error("the density at the mode is below that beyond it")
		}
	})
}

// TestSeeds: equal seeds give equal draws, different seeds different ones.
func TestSeeds(t *testing.T) {
	eachDraw(t, func(t *testing.T, _ int, d Distribution, _ string) {
		take := func(seed uint64) []float64 {
			r := rand.New(rand.NewPCG(seed, 0))
			var sample []float64
			for range 100 {
				sample = append(sample, d.Draw(r))
			}
			return sample
		}
		if !slices.Equal(take(1), take(1)) {
			t.Error("the same seed gave different draws")
		}
		if _, constant := d.(Constant); !constant && slices.Equal(take(1), take(2)) {
			t.Error("different seeds gave the same draws")
		}
	})
}
