package lindley_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"pinfold.dev/pinfold/core/demand"
)

// parse reads demand: "exponential U", "pareto SHAPE U", "gamma SHAPE U", "lognormal SIGMA U",
// "poisson PER U", "constant U", "values X P X P...".
// After "disguised", nothing is known of it but its CDF.
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

// values are demands with their probabilities.
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
	return 1 - beyond
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

// disguised hides what a distribution says of itself beside its CDF.
type disguised struct{ demand.Distribution }
