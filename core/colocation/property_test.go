package colocation

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/quantity"
)

// TestBudget checks, for any usage by others, that the budget is never below the floor nor above
// what the others leave by more than the band, that it is raised only to what was left for five
// seconds, that raises are at least that far apart, and that there are at most eight changes in
// that time.
func TestBudget(t *testing.T) {
	const mostChanges = 8 // a raise, and falls by 1, 2, 4 ... bands of 2% each
	rapid.Check(t, func(t *rapid.T) {
		c := Config{Threshold: quantity.Share(rapid.Float64Range(0.1, 1).Draw(t, "threshold")),
			Floor: quantity.CPUs(rapid.Float64Range(0.01, 4).Draw(t, "floor"))}
		cpus := rapid.IntRange(1, 64).Draw(t, "cpus")
		band := max(bandShare*quantity.CPUs(cpus), leastBand)
		b := New(c)
		var wants []quantity.CPUs
		var before quantity.CPUs
		raised := -raiseEvery
		var changes []time.Duration
		for range rapid.IntRange(1, 40).Draw(t, "loads") {
			others := quantity.CPUs(rapid.Float64Range(0, float64(cpus)).Draw(t, "others"))
			for range rapid.IntRange(1, 80).Draw(t, "ticks") {
				now := time.Duration(len(wants)) * tickLength
				want := max(c.Floor, quantity.CPUs(c.Threshold)*quantity.CPUs(cpus)-others)
				wants = append(wants, want)
				got := b.Step(Tick{Now: now, CPUs: cpus, Others: others}).Budget
				if got < c.Floor || got > want+band {
					t.Fatalf("%v: budget %v with floor %v and %v left", now, got, c.Floor, want)
				}
				if got > before && now > 0 {
					for _, left := range wants[len(wants)-int(raiseEvery/tickLength):] {
						if got > left+1e-9 || now-raised < raiseEvery {
							t.Fatalf("%v: raised to %v after the last raise at %v, with %v left before", now, got, raised, left)
						}
					}
					raised = now
				}
				if got != before {
					changes = append(changes, now)
				}
				if n := len(changes); n > mostChanges && changes[n-1]-changes[n-1-mostChanges] < raiseEvery {
					t.Fatalf("%d changes from %v to %v", mostChanges+1, changes[n-1-mostChanges], now)
				}
				before = got
			}
		}
	})
}
