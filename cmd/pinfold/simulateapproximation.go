package main

import (
	"fmt"

	"pinfold.dev/pinfold/core/demand"
	"pinfold.dev/pinfold/core/interference"
	"pinfold.dev/pinfold/core/interference/lindley"
)

// approximateAll adds to each combination what the groups' waiting in the same queue comes to
// when they are taken as independent.
func (s *scenario) approximateAll(all []combination) error {
	if s.effort.rule.value != interference.Strict.String() {
		return &wrongUsage{"--approximation is for --rule strict only"}
	}
	if len(s.replay.files) > 0 {
		return &wrongUsage{"--approximation is for distributions: the demand of a recording has no density"}
	}
	for i := range all {
		p, err := all[i].approximated()
		if err != nil {
			return err
		}
		all[i].approximation = &p
	}
	return nil
}

// approximated returns P(WCET = 1).
func (c *combination) approximated() (float64, error) {
	independent, ok := c.groups[0].Demand.(demand.Independent)
	if _, dense := independent.Distribution.(lindley.Unimodal); !ok || !dense {
		return 0, &wrongUsage{fmt.Sprintf("--approximation is for independent demand with a density: exponential, pareto, gamma or lognormal, not %s", c.name)}
	}
	missed, err := lindley.Aggregate(independent.Distribution, c.cgroups, c.burst.quotas())
	if err != nil {
		return 0, fmt.Errorf("--approximation: mean %v, %d cgroups, burst %v: %w", c.mean, c.cgroups, c.burst, err)
	}
	return 1 - missed, nil
}
