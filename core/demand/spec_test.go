package demand

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// parse returns the distribution that a line of the files in testdata describes: its name and its
// parameters.
func parse(words []string) (Distribution, error) {
	n, err := numbers(words[1:])
	if err != nil {
		return nil, err
	}
	at := func(i int) float64 {
		if i >= len(n) {
			return math.NaN()
		}
		return n[i]
	}
	switch words[0] {
	case "exponential":
		return NewExponential(at(0))
	case "constant":
		return NewConstant(at(0))
	case "pareto":
		return NewPareto(at(0), at(1))
	case "truncated-pareto":
		return NewTruncatedPareto(at(0), at(1), at(2))
	case "poisson":
		return NewPoisson(at(0), at(1))
	case "gamma":
		return NewGamma(at(0), at(1))
	case "lognormal":
		return NewLognormal(at(0), at(1))
	case "empirical":
		return NewEmpirical(n)
	case "stretched": // the new mean, then the samples
		replay, err := NewReplay(n[1:])
		if err != nil {
			return nil, err
		}
		if replay, err = replay.WithMean(n[0]); err != nil {
			return nil, err
		}
		return NewEmpirical(replay.phases[0])
	}
	return nil, fmt.Errorf("no distribution %q", words[0])
}

func numbers(words []string) ([]float64, error) {
	var all []float64
	for _, w := range words {
		n, err := strconv.ParseFloat(w, 64)
		if err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	return all, nil
}

// join formats numbers with 12 digits.
func join(numbers []float64) string {
	var words []string
	for _, n := range numbers {
		words = append(words, strconv.FormatFloat(n, 'g', 12, 64))
	}
	return strings.Join(words, " ")
}
