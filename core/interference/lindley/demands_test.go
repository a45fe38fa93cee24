package lindley_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"pinfold.dev/pinfold/core/demand"
)

// parse reads a demand: "exponential U", "pareto SHAPE U", "gamma SHAPE U", "lognormal SIGMA U",
// "poisson PER U", "constant U" or "values X P X P...". "disguised" before it hides everything but
// the CDF.
func parse(words []string) (demand.Distribution, error) {
	if words[0] == "disguised" {
		d, err := parse(words[1:])
		return disguised{d}, err
	}
	numbers := make([]float64, len(words)-1)
	for i, word := range words[1:] {
		var err error
		if numbers[i], err = strconv.ParseFloat(word, 64); err != nil {
			return nil, err
		}
	}
	switch name := words[0]; {
	case name == "exponential" && len(numbers) == 1:
		return demand.NewExponential(numbers[0])
	case name == "constant" && len(numbers) == 1:
		return demand.NewConstant(numbers[0])
	case name == "pareto" && len(numbers) == 2:
		return demand.NewPareto(numbers[0], numbers[1])
	case name == "gamma" && len(numbers) == 2:
		return demand.NewGamma(numbers[0], numbers[1])
	case name == "lognormal" && len(numbers) == 2:
		return demand.NewLognormal(numbers[0], numbers[1])
	case name == "poisson" && len(numbers) == 2:
		return demand.NewPoisson(numbers[1], numbers[0])
	case name == "values" && len(numbers)%2 == 0:
		v := values{}
		for i := 0; i < len(numbers); i += 2 {
			v = append(v, value{amount: numbers[i], weight: numbers[i+1]})
		}
		return v, nil
	}
	return nil, fmt.Errorf("unknown demand %v", words)
}

func must(t testing.TB, words ...string) demand.Distribution {
	t.Helper()
	d, err := parse(words)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// values is demand with a finite number of values.
type values []value

type value struct{ amount, weight float64 }

func (v values) Mean() float64 {
	mean := 0.0
	for _, x := range v {
		mean += x.amount * x.weight
	}
	return mean
}

func (v values) CDF(x float64) float64 {
	beyond := 0.0
	for _, y := range v {
		if y.amount > x {
			beyond += y.weight
		}
	}
	return max(1-beyond, 0) // the sum of the weights may exceed 1 by a rounding error
}

func (v values) Draw(r *rand.Rand) float64 {
	u := r.Float64()
	for _, x := range v {
		if u -= x.weight; u < 0 {
			return x.amount
		}
	}
	return v[len(v)-1].amount
}

// disguised hides all properties of a distribution but its CDF.
type disguised struct{ demand.Distribution }
