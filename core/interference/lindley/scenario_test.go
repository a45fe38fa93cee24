package lindley_test

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"pinfold.dev/pinfold/core/interference/lindley"
	"pinfold.dev/pinfold/test/golden"
)

// TestScenarios plays testdata/*.txt. The commands are
//
//	throttle STEPS DEMAND at BURST...    probability and bounds
//
// with DEMAND as parse takes it.
func TestScenarios(t *testing.T) {
	golden.Scenarios(t, "testdata/*.txt", func(t *testing.T, text string) string {
		return golden.Blocks(t, text, play)
	})
}

func play(words []string) (string, error) {
	number, err := strconv.Atoi(words[1])
	if err != nil {
		return "", err
	}
	bursts, at := []float64{}, len(words)-1
	for ; at > 0 && words[at] != "at"; at-- {
		b, err := strconv.ParseFloat(words[at], 64)
		if err != nil {
			return "", err
		}
		bursts = append([]float64{b}, bursts...)
	}
	d, err := parse(words[2:at])
	if err != nil {
		return "", err
	}
	if words[0] != "throttle" {
		return "", fmt.Errorf("unknown command %q", words[0])
	}
	return throttle(lindley.Solve(d, bursts, number)), nil
}

func throttle(solution lindley.Solution, err error) string {
	if err != nil {
		return err.Error() + "\n"
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%s; %s\n", solution.Estimate.Name, solution.Bounds.Name)
	for _, x := range solution.Throttling {
		fmt.Fprintf(&out, "%-4v %.6g, %.4g to %.4g\n", x.Burst, settled(x.Probability), settled(x.Lower), settled(x.Upper))
	}
	return out.String()
}

// settled replaces rounding errors around 0 by 0.
func settled(p float64) float64 {
	if math.Abs(p) < 1e-13 {
		return 0
	}
	return p
}
