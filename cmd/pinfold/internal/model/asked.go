package model

import (
	"fmt"
	"slices"
	"strings"

	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/report/simulation"
)

// The words for limits that nobody has chosen.
const (
	machineEqual = "an equal part of the machine"
	unrecorded   = " as none was recorded (--limit sets another, 'pinfold advise' finds one),"
)

// asked says what is simulated: how many containers, with which limit and burst, on which machine.
// Answers differ for no other reason.
func asked(all []simulation.Combination, limit, machine string) string {
	var counts, bursts []string
	add := func(to *[]string, text string) {
		if !slices.Contains(*to, text) {
			*to = append(*to, text)
		}
	}
	least := all[0].Cgroups
	for i := range all {
		add(&counts, fmt.Sprint(all[i].Cgroups))
		add(&bursts, all[i].Burst.String())
		least = min(least, all[i].Cgroups)
	}
	switch {
	case machine != "":
	case least > 1:
		machine = "as many CPUs as their limits together"
	case len(counts) == 1:
		machine = "a machine with enough CPUs"
	default:
		machine = "as many CPUs as their limits together (one alone: enough CPUs)"
	}
	return fmt.Sprintf("%s %s with %s on %s, with a burst of %s", strings.Join(counts, " or "), quantity.Plural(all[len(all)-1].Cgroups, "container"),
		limit, machine, strings.Join(bursts, " or "))
}

// asked says what is simulated, in the words of the flags.
func (r *replayOptions) asked(all []simulation.Combination) string {
	machine := ""
	if r.machine > 0 {
		machine = quantity.CPUs(r.machine.CPUs()).String()
	}
	return asked(all, r.limits(all), machine)
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
	of := "a limit of " + quantity.CPUs(all[0].Quota).String()
	switch {
	case r.limit > 0:
		return of
	case limited == 0 && same:
		return of + ", which is " + machineEqual + unrecorded
	case limited == 0:
		return "a limit of " + machineEqual + unrecorded
	case limited == 1 && len(r.recorded) == 1:
		return "the recorded limit of " + quantity.CPUs(all[0].Quota).String()
	case limited == len(r.recorded):
		return "their recorded limits"
	}
	return "their recorded limits, or " + machineEqual + unrecorded
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
