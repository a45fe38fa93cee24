package experiment

import (
	"fmt"
	"slices"

	"pinfold.dev/pinfold/core/quantity"
)

// starved is the share of their usage in the baseline that the other services need: with less, they
// are not the same neighbours any more.
const starved = 0.25

// overload is the share of a limit from which on a queue of planned requests hardly ever empties.
// Its latency then grows with the length of the window.
const overload quantity.Share = 0.9

// unlike returns why the figure of a condition cannot be compared with that of its baseline, "" if
// it can. Usage can always be compared.
func (r Result) unlike(c Comparison) string {
	if Figures()[c.Figure].Better == 0 || c.Condition == c.Baseline {
		return ""
	}
	others, before := r.mean(Others, c.Condition, c.Load), r.mean(Others, c.Baseline, c.Load)
	if min(others, before) > 0 && min(others, before) < starved*max(others, before) {
		return fmt.Sprintf("the other services used %s here and %s in the baseline: they did not do the same work",
			Others.Format(others), Others.Format(before))
	}
	if !slices.Contains(latencies(), c.Figure) || !r.planned(c.Load) {
		return ""
	}
	used := max(r.mean(Used, c.Condition, c.Load), r.mean(Used, c.Baseline, c.Load))
	for _, condition := range []string{c.Condition, c.Baseline} {
		service, _ := r.First(condition) // without a limit if there is no such condition
		if limit := service.Limit.Value * float64(service.Count()); limit > 0 && used > float64(overload)*limit {
			return fmt.Sprintf("%s is overloaded: the requests need %s and its limit is %s, so latency depends on the length of the window",
				condition, Used.Format(used), Used.Format(limit))
		}
	}
	return ""
}

// planned reports whether the requests of a load are sent when they are due, answered or not.
func (r Result) planned(load string) bool {
	return slices.ContainsFunc(r.Config.Loads, func(l Load) bool {
		return l.Name == load && slices.Contains([]Client{Batches, Random, Planned}, l.Client)
	})
}
