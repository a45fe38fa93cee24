package main

import (
	"bufio"
	"fmt"
	"io"
	"math"

	"pinfold.dev/pinfold/core/interference"
)

// printSimulated prints a row for each combination, and what they mean.
func printSimulated(w io.Writer, done []simulated) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "%6s %7s %5s %19s %21s %21s\n", "mean", "cgroups", "burst", "E[WCET]", "P(WCET = 1)", "throttled")
	for _, s := range done {
		fmt.Fprintf(b, "%6.4g %7d %5v %19s %21s %21s\n", s.mean, s.cgroups, s.burst,
			withError(s.ExpectedWCET, 1, ""), withError(s.ProbabilityWCET1, 100, "%"), withError(s.Groups[0].ThrottleRatio, 100, "%"))
	}
	if err := b.Flush(); err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	return nil
}

// withError prints a figure to the second digit of its standard error.
func withError(e interference.Estimate, unit float64, suffix string) string {
	places := 4
	if e.StandardError > 0 {
		places = min(max(1-int(math.Floor(math.Log10(unit*e.StandardError))), 0), 9)
	}
	return fmt.Sprintf("%.*f%s ±%.*f", places, unit*e.Value, suffix, places, unit*e.StandardError)
}

// warnSimulated says what cannot be concluded from which combination.
func warnSimulated(w io.Writer, done []simulated) {
	for _, s := range done {
		for _, warning := range s.Warnings {
			fmt.Fprintf(w, "pinfold: mean %.4g, %d cgroups, burst %v: %s\n", s.mean, s.cgroups, s.burst, warning)
		}
	}
}
