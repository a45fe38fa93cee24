package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"pinfold.dev/pinfold/core/quantity"
)

// Burst does next to no harm to the neighbours while P(WCET = 1) is at least harmless, and
// little while it is at least bearable. Both are conventions.
const (
	harmless = 0.999
	bearable = 0.99
)

// conclude says in a few sentences what was found, for who runs the machine.
func conclude(done []simulated) string {
	if len(done) == 1 {
		return done[0].conclude()
	}
	var safe []simulated
	worst := done[0]
	for _, s := range done {
		if s.surely() >= harmless {
			safe = append(safe, s)
		}
		if s.ProbabilityWCET1.Value < worst.ProbabilityWCET1.Value {
			worst = s
		}
	}
	text := concludeSafe(safe, len(done))
	if worst.Misses > 0 {
		text += fmt.Sprintf("\nThe worst is %s: %s.", worst.what(), worst.lateness())
	}
	return text
}

// concludeSafe is about those combinations of all that are harmless.
func concludeSafe(safe []simulated, all int) string {
	if len(safe) == 0 {
		return fmt.Sprintf("In none of %d combinations are %s of the periods surely done in time: take fewer containers, or a smaller burst, before you turn it on.",
			all, quantity.Share(harmless))
	}
	many := fmt.Sprintf("%d of", len(safe))
	if len(safe) == all {
		many = "all"
	}
	least := slices.MinFunc(safe, func(a, b simulated) int {
		return cmp.Compare(a.average().ThrottleRatio.Value, b.average().ThrottleRatio.Value)
	})
	return fmt.Sprintf("In %s %d combinations at least %s of the periods are surely done in time, so that containers hardly harm each other.\n"+
		"Least throttled of these is %s: in %s of the periods.",
		many, all, quantity.Share(harmless), least.what(), quantity.Share(least.average().ThrottleRatio.Value))
}

// conclude is that of one combination.
func (s *simulated) conclude() string {
	verdict := "take fewer containers, or a smaller burst, before you turn it on"
	switch p := s.surely(); {
	case p >= harmless:
		verdict = "next to no harm to the neighbours"
	case p >= bearable:
		verdict = "little harm to the neighbours"
	case s.ProbabilityWCET1.Value >= bearable:
		verdict = "too few periods to judge; take more --periods"
	case s.burst == 0:
		verdict = "the machine is too small for these quotas, without any burst; take fewer containers"
	}
	return fmt.Sprintf("With burst %v, %d containers that want %s of their quotas on average: %s, and a container is throttled in %s of the periods: %s.",
		s.burst, s.cgroups, quantity.Share(s.mean), s.lateness(), quantity.Share(s.average().ThrottleRatio.Value), verdict)
}

// surely is P(WCET = 1), less what chance may have added to it.
func (s *simulated) surely() float64 {
	if s.Misses == 0 {
		return 1 - 3/float64(s.Periods)
	}
	return s.ProbabilityWCET1.Value - 2*s.ProbabilityWCET1.StandardError
}

// lateness says how often something is not done in the period in which it was wanted.
func (s *simulated) lateness() string {
	if s.Misses == 0 {
		return fmt.Sprintf("in none of %d periods was more wanted than there is", s.Periods)
	}
	once := float64(s.Periods) / float64(s.Misses)
	digits := math.Pow(10, math.Floor(math.Log10(once))-1)
	once = math.Round(once/digits) * digits
	return fmt.Sprintf("one period in %.10g is not done in time", once)
}
