// Package simulation formats results of the interference simulator as text and JSON.
//
// A [Report] contains the results of several combinations of demand, number of containers and
// burst. Its text is a table with a row per combination, followed by a verdict: whether the
// neighbours are harmed. [PrintThrottling] does the same for the exact analysis of one container.
package simulation

import (
	"fmt"
	"math"

	"pinfold.dev/pinfold/core/interference"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/report"
)

// Combination is one input of the simulator.
type Combination struct {
	Distribution string  // of the demand, or "trace"
	Mean         float64 // demand, in multiples of the quotas
	Cgroups      int
	Burst        report.Burst
	Quota        float64 // of a group, on average
	Capacity     float64 // in the unit of the quotas
	Kinds        []interference.Group
}

// String names the combination in a sentence.
func (c *Combination) String() string {
	return fmt.Sprintf("mean %s, %d cgroups, burst %v", quantity.Share(c.Mean), c.Cgroups, c.Burst)
}

// Outcome is a combination with its result.
type Outcome struct {
	Combination
	*interference.Result
}

// average returns the figures of one group, averaged over all. Amounts are in multiples of the
// average quota. Kinds of groups depend on each other, so the standard errors are added, which
// overestimates the error.
func (o *Outcome) average() interference.GroupResult {
	if len(o.Groups) == 1 {
		return o.Groups[0]
	}
	add := func(to *interference.Estimate, e interference.Estimate, weight float64) {
		to.Value += weight * e.Value
		to.StandardError += weight * e.StandardError
	}
	var all interference.GroupResult
	for i, g := range o.Groups {
		share := float64(o.Kinds[i].Count) / float64(o.Cgroups)
		amount := share * o.Kinds[i].Quota / o.Quota
		add(&all.ThrottleRatio, g.ThrottleRatio, share)
		add(&all.Demand, g.Demand, amount)
		add(&all.Backlog, g.Backlog, amount)
		add(&all.BurstUse, g.BurstUse, amount)
	}
	return all
}

// Report is what a simulation of several combinations found.
type Report struct {
	Asked    string // how many containers, with which limit and burst, on which machine
	Outcomes []Outcome
	Seed     uint64

	// The following are about recorded demand. The kinds of each combination are these groups.
	Recorded []Recorded
	Order    Order
	Warnings []string
}

// Order is how periods are drawn from a recording.
type Order string

// The orders.
const (
	Blocks      Order = "blocks"      // in blocks of random length, from random places
	Replay      Order = "replay"      // as recorded
	Independent Order = "independent" // each by itself
)

// Group is a group of a recording.
type Group struct{ File, Path, Name string }

// Matches reports whether a value of --group means this group: its name, or its path, also as it is
// printed or encoded as JSON.
func (g Group) Matches(word string) bool {
	return word == g.Name || report.Printable(word) == report.Printable(g.Path)
}

func (g Group) String() string {
	name := g.Path
	if g.Name != "" {
		name = g.Name
	}
	return report.Printable(fmt.Sprintf("%s in %s", name, g.File))
}

// Recorded is the demand of a recorded group.
type Recorded struct {
	Group
	Limit        float64 // the last, in CPUs; 0 without
	LimitChanges int
	Mean         float64 // CPUs
	Unknown      trace.Figures
	trace.Demand
	Waited float64 // of [trace.Bounds]

	BlockLength float64 // of Blocks, in periods; see [pinfold.dev/pinfold/core/demand.BlockLength]
	BlocksKeep  bool    // blocks are long enough for the correlation of the demand
}

func (r *Recorded) standardDeviation() float64 {
	squares := 0.0
	for _, x := range r.CPUs {
		squares += (x - r.Mean) * (x - r.Mean)
	}
	return math.Sqrt(squares / float64(len(r.CPUs)))
}

// fewPeriods is the number of periods below which figures about rare periods are unreliable.
const fewPeriods = 1000

// Warnings returns sentences about what the recording does not show.
func (r *Recorded) Warnings() []string {
	var out []string
	add := func(format string, args ...any) {
		out = append(out, fmt.Sprintf("%s: ", r.Group)+fmt.Sprintf(format, args...))
	}
	if n := len(r.CPUs); n < fewPeriods {
		add("only %d periods of %v were recorded: what happens less often than once in %d of them is not known; record for longer", n, r.Period, n)
	}
	if r.Unknown.Has(trace.Periods) {
		add("whether it was throttled is not known: if it was, it wanted more than it used, and the result is too good")
	}
	if r.Averaged > 0 {
		add("%s of the periods are averages over late samples, which hide how high single ones were", quantity.Share(r.Averaged))
	}
	if r.Throttled > 0 {
		add("it was throttled in samples that are %s of the time: %s of its usage was moved to where it was wanted", quantity.Share(r.Throttled), quantity.Share(r.Moved))
	}
	if r.Waited > trace.MaxWaited {
		add("it waited for CPUs for %s of its run time: the most that it may have wanted is taken; record with --weight, or on a less busy machine", quantity.Share(r.Waited))
	}
	if r.Open > 0 {
		add("throttling did not end %d times (%s of the time): how much more was wanted there is not known, so the result is too good; record without a limit",
			r.Open, quantity.Share(r.OpenShare))
	}
	return out
}

// BlockWarning returns a sentence if blocks do not keep the correlation of the demand, or "".
func (r *Recorded) BlockWarning() string {
	if r.BlocksKeep || len(r.CPUs) < fewPeriods {
		return ""
	}
	return fmt.Sprintf("%s: its demand is correlated for so long that pieces of a twentieth of the recording (%.0f periods) do not keep all of it; record for longer",
		r.Group, r.BlockLength)
}
