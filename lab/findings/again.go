package findings

import (
	"fmt"
	"slices"
	"time"

	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/lab/experiment"
)

// again compares the changes that several runs of the same experiment have found: two agree if their intervals overlap.
// It returns a sentence, "" if there is none, and those that do not agree.
func again(runs []Run) (text string, apart table) {
	apart.Heads = []string{"experiment", "figure", "change", "one run", "another run"}
	var agree, pairs, alikeAgree, alike int
	for i, a := range runs {
		for _, b := range runs[i+1:] {
			if a.Result.Config.Name != b.Result.Config.Name {
				continue
			}
			g := group{Name: plain(a.Result.Config.Name)}
			for _, answer := range a.answers() {
				one, other := a.compare(answer), b.compare(answer)
				if !bounded(one) || !bounded(other) {
					continue
				}
				overlap := one.Ratio.Low <= other.Ratio.High && other.Ratio.Low <= one.Ratio.High
				pairs++
				if a.Result.Environment.Model == b.Result.Environment.Model {
					alike++
					if overlap {
						alikeAgree++
					}
				}
				if overlap {
					agree++
					continue
				}
				g.Rows = append(g.Rows, []string{label(answer.Figure) + a.load(answer.Load), against(one), a.found(one), b.found(other)})
			}
			if g.Rows != nil {
				apart.Groups = append(apart.Groups, g)
			}
		}
	}
	if pairs > 0 {
		text = fmt.Sprintf("Several runs of an experiment: in %d of %s the intervals of two runs overlap; in %d of %d if both were on the same model of machine.",
			agree, quantity.Count(pairs, "change"), alikeAgree, alike)
	}
	return text, apart
}

// found is what a run has found of a change, and where.
func (r Run) found(c experiment.Comparison) string {
	e := r.Result.Environment
	return plain(fmt.Sprintf("%s (%s, %s, %s)", r.effect(c), spread(c), e.Model, e.Started.UTC().Format(time.DateOnly)))
}

// answers returns the changes that the results are about.
func (r Run) answers() []experiment.Answer {
	all := slices.Clone(r.Result.Config.Answers)
	for _, p := range r.Result.Config.Published {
		if !slices.Contains(all, p.Answer) {
			all = append(all, p.Answer)
		}
	}
	return all
}

// bounded reports whether a change has an interval.
func bounded(c experiment.Comparison) bool {
	return c.Unlike == "" && c.Condition != c.Baseline && c.Ratio.Rounds > 0 && c.Ratio.Bounded()
}
