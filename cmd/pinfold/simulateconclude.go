package main

import (
	"fmt"
	"math"
)

// Burst does next to no harm to the neighbours while P(WCET = 1) is at least harmless, and
// little while it is at least bearable. Both are conventions.
const (
	harmless = 0.999
	bearable = 0.99
)

// conclude says in a sentence or two what was found, for who runs the machine.
func conclude(done []simulated) string {
	if len(done) == 1 {
		return done[0].conclude()
	}
	safe, worst := 0, 0
	for i := range done {
		if done[i].surely() >= harmless {
			safe++
		}
		if done[i].ProbabilityWCET1.Value < done[worst].ProbabilityWCET1.Value {
			worst = i
		}
	}
	text := fmt.Sprintf("In %d of %d combinations at least %s of the periods are surely done in time, so that containers hardly harm each other.",
		safe, len(done), percentage(harmless))
	switch safe {
	case 0:
		text = fmt.Sprintf("In none of %d combinations are %s of the periods surely done in time: take fewer containers, or a smaller burst, before you turn it on.",
			len(done), percentage(harmless))
	case len(done):
		text = fmt.Sprintf("In all %d combinations at least %s of the periods are surely done in time, so that containers hardly harm each other.",
			len(done), percentage(harmless))
	}
	if w := &done[worst]; w.Misses > 0 {
		text += fmt.Sprintf(" The worst is %s: %s.", w.what(), w.lateness())
	}
	return text
}

// conclude is that of one combination.
func (s *simulated) conclude() string {
	p := s.surely()
	verdict := "take fewer containers, or a smaller burst, before you turn it on"
	switch {
	case p >= harmless:
		verdict = "next to no harm to the neighbours"
	case p >= bearable:
		verdict = "little harm to the neighbours"
	}
	if s.burst == 0 && p < bearable {
		verdict = "the machine is too small for these quotas, without any burst; take fewer containers"
	}
	return fmt.Sprintf("With burst %v, %d containers that want %s of their quotas on average: %s, and a container is throttled in %s of the periods: %s.",
		s.burst, s.cgroups, percentage(s.mean), s.lateness(), percentage(s.average().ThrottleRatio.Value), verdict)
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
