package simulation

import (
	"pinfold.dev/pinfold/core/interference"
	"pinfold.dev/pinfold/report"
)

// outcomeJSON is an outcome as JSON. Amounts of CPU time are per period, in multiples of the quota.
// Quota and capacity are in CPUs if demand was recorded, otherwise in multiples of the machine.
type outcomeJSON struct {
	Distribution string       `json:"distribution"` // or "trace"
	Mean         float64      `json:"mean"`
	Cgroups      int          `json:"cgroups"`
	Burst        report.Burst `json:"burst"`
	Rule         string       `json:"rule"`
	Quota        float64      `json:"quota"` // of a container, on average
	Capacity     float64      `json:"capacity"`
	Order        Order        `json:"order,omitempty"`
	Seed         uint64       `json:"seed"`
	Periods      int64        `json:"periods"`

	ExpectedWCET                  float64 `json:"expectedWCET"`
	ExpectedWCETStandardError     float64 `json:"expectedWCETStandardError"`
	ProbabilityWCET1              float64 `json:"probabilityWCET1"` // see [interference.Result]: throttling does not count
	ProbabilityWCET1StandardError float64 `json:"probabilityWCET1StandardError"`
	WCET                          []int64 `json:"wcetPeriods"` // with a WCET of 1, 2, ...; the 4096th counts longer ones, too
	servedJSON
	Groups   []groupJSON `json:"groups,omitempty"` // recorded ones
	Verdict  string      `json:"verdict"`
	Warnings []string    `json:"warnings"`
}

type servedJSON struct {
	ThrottleRatio              float64 `json:"throttleRatio"`
	ThrottleRatioStandardError float64 `json:"throttleRatioStandardError"`
	Backlog                    float64 `json:"backlog"`
	BacklogStandardError       float64 `json:"backlogStandardError"`
	BurstUse                   float64 `json:"burstUse"`
	BurstUseStandardError      float64 `json:"burstUseStandardError"`
}

func newServed(g interference.GroupResult) servedJSON {
	return servedJSON{
		g.ThrottleRatio.Value, g.ThrottleRatio.StandardError,
		g.Backlog.Value, g.Backlog.StandardError,
		g.BurstUse.Value, g.BurstUse.StandardError,
	}
}

// groupJSON is the outcome for a recorded group.
type groupJSON struct {
	File            string  `json:"file"`
	Group           string  `json:"group"`
	Name            string  `json:"name,omitempty"`
	RecordedPeriods int     `json:"recordedPeriods"`
	PeriodSeconds   float64 `json:"periodSeconds"`
	BlockLength     float64 `json:"blockLength,omitempty"` // periods
	Mean            float64 `json:"mean"`
	Cgroups         int     `json:"cgroups"`
	Quota           float64 `json:"quota"`
	servedJSON
}

// JSON returns a value to encode as JSON.
func (r *Report) JSON() any {
	var out []outcomeJSON
	for _, o := range r.Outcomes {
		one := outcomeJSON{
			Distribution: o.Distribution, Mean: o.Mean, Cgroups: o.Cgroups, Burst: o.Burst, Rule: o.Rule.String(),
			Quota: o.Quota, Capacity: o.Capacity, Order: r.Order, Seed: r.Seed, Periods: o.Periods,
			ExpectedWCET: o.ExpectedWCET.Value, ExpectedWCETStandardError: o.ExpectedWCET.StandardError,
			ProbabilityWCET1: o.ProbabilityWCET1.Value, ProbabilityWCET1StandardError: o.ProbabilityWCET1.StandardError,
			WCET: o.WCET[1:], servedJSON: newServed(o.average()), Verdict: o.verdict(), Warnings: append(append([]string{}, r.Warnings...), o.Warnings...),
		}
		for i, k := range r.Recorded {
			g := groupJSON{
				File: k.File, Group: k.Path, Name: k.Name, RecordedPeriods: len(k.CPUs), PeriodSeconds: k.Period.Seconds(),
				Mean: o.Kinds[i].Demand.Mean(), Cgroups: o.Kinds[i].Count, Quota: o.Kinds[i].Quota, servedJSON: newServed(o.Groups[i]),
			}
			if r.Order == Blocks {
				g.BlockLength = k.BlockLength
			}
			one.Groups = append(one.Groups, g)
		}
		out = append(out, one)
	}
	return out
}
