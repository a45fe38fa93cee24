package model

import (
	"fmt"
	"slices"
	"strings"

	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/report/simulation"
)

// equalPart is the limit where none was recorded or given: an equal part of the machine.
const equalPart = "an equal part of the machine as none was recorded (--limit sets another, 'pinfold advise' finds one),"

// asked says what is simulated: how many containers, with which limit and burst, on which machine.
// Answers to the same question differ for no other reason.
func (r *replayOptions) asked(all []simulation.Combination) string {
	var counts, bursts []string
	for i := range all {
		if count := fmt.Sprint(all[i].Cgroups); !slices.Contains(counts, count) {
			counts = append(counts, count)
		}
		if burst := all[i].Burst.String(); !slices.Contains(bursts, burst) {
			bursts = append(bursts, burst)
		}
	}
	machine := "as many CPUs as their limits together"
	switch hasOne := slices.Contains(counts, "1"); {
	case r.machine > 0:
		machine = quantity.CPUs(r.machine.CPUs()).String()
	case hasOne && len(counts) == 1:
		machine = "a machine with enough CPUs"
	case hasOne:
		machine += " (one alone: enough CPUs)"
	}
	return fmt.Sprintf("%s %s with %s on %s, with a burst of %s", strings.Join(counts, " or "), quantity.Plural(all[len(all)-1].Cgroups, "container"),
		r.limits(all), machine, strings.Join(bursts, " or "))
}

// limits says which limits the containers have, and why.
func (r *replayOptions) limits(all []simulation.Combination) string {
	limited := 0
	for i := range r.recorded {
		if r.recorded[i].Limit > 0 {
			limited++
		}
	}
	same := !slices.ContainsFunc(all, func(c simulation.Combination) bool { return c.Quota != all[0].Quota })
	of := "limit of " + quantity.CPUs(all[0].Quota).String()
	switch {
	case len(r.recorded) == 0:
		return "the same limit"
	case r.limit > 0:
		return "a " + of
	case limited == 0 && same:
		return "a " + of + ", which is " + equalPart
	case limited == 0:
		return "a limit of " + equalPart
	case len(r.recorded) == 1:
		return "the recorded " + of
	case limited == len(r.recorded):
		return "their recorded limits"
	}
	return "their recorded limits, or " + equalPart
}

// maxAlone bounds the burst of one container, in multiples of its limit.
const maxAlone = 1e6

// alone gives one container a machine on which it never waits for CPUs: as large as what limit and
// burst let through. On one as large as its limit no burst would be of use.
func alone(c *simulation.Combination) {
	group := &c.Kinds[0]
	group.Burst = min(group.Burst, maxAlone)
	c.Capacity = c.Quota * (1 + group.Burst)
}
