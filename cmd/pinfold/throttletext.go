package main

import (
	"bufio"
	"fmt"
	"io"

	"pinfold.dev/pinfold/core/interference/lindley"
	"pinfold.dev/pinfold/core/quantity"
)

func printThrottling(w io.Writer, about string, answers []throttling, s lindley.Solution) error {
	b := bufio.NewWriter(w)
	printLine(b, "demand", "%s, in independent periods", about)
	printLine(b, "figures", "%s", s.Estimate.Name)
	printLine(b, "bounds", "%s, %d steps in a quota, up to %d quotas", s.Bounds.Name, s.Bounds.Steps, s.Bounds.Horizon)
	fmt.Fprintln(b)
	rows := [][]string{{"burst", "throttled", "at least", "at most", "width"}}
	for _, a := range answers {
		rows = append(rows, []string{a.Burst.String(), percent7(a.Probability), percent7(a.Lower), percent7(a.Upper), fmt.Sprintf("%.1e", a.Upper-a.Lower)})
	}
	printRows(b, rows)
	fmt.Fprintf(b, "\n%s\n", concludeThrottling(answers))
	if err := b.Flush(); err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	return nil
}

// percent7 shows seven digits of a probability.
func percent7(p float64) string { return quantity.Share(p).Digits(7) }

// concludeThrottling says in a sentence what the largest burst is worth.
func concludeThrottling(answers []throttling) string {
	least, most := answers[0], answers[0]
	for _, a := range answers {
		if a.Burst < least.Burst {
			least = a
		}
		if a.Burst > most.Burst {
			most = a
		}
	}
	text := fmt.Sprintf("With burst %v the container is throttled in %s of the periods", least.Burst, quantity.Share(least.Probability))
	if most.Burst > least.Burst {
		text += fmt.Sprintf(", with burst %v in %s", most.Burst, quantity.Share(most.Probability))
	}
	return text + "."
}
