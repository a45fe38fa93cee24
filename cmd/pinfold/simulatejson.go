package main

import "pinfold.dev/pinfold/core/interference"

// simulation is a combination with its answer, as JSON. Amounts of CPU time are in multiples
// of the quota, per period. Quota and capacity are in CPUs when demand was recorded, else
// in multiples of the machine.
type simulation struct {
	Distribution string  `json:"distribution"` // or "trace"
	Mean         float64 `json:"mean"`
	Cgroups      int     `json:"cgroups"`
	Burst        burst   `json:"burst"`
	Rule         string  `json:"rule"`
	Quota        float64 `json:"quota"` // of a container, on average over all
	Capacity     float64 `json:"capacity"`
	Order        string  `json:"order,omitempty"`
	Seed         uint64  `json:"seed"`
	Periods      int64   `json:"periods"`

	ExpectedWCET                  float64 `json:"expectedWCET"`
	ExpectedWCETStandardError     float64 `json:"expectedWCETStandardError"`
	ProbabilityWCET1              float64 `json:"probabilityWCET1"`
	ProbabilityWCET1StandardError float64 `json:"probabilityWCET1StandardError"`
	WCET                          []int64 `json:"wcetPeriods"` // with a WCET of 1, 2, ...; the 4096th counts longer ones, too
	served
	Groups   []servedGroup `json:"groups,omitempty"` // recorded ones
	Warnings []string      `json:"warnings"`
}

// served are figures of containers.
type served struct {
	ThrottleRatio              float64 `json:"throttleRatio"`
	ThrottleRatioStandardError float64 `json:"throttleRatioStandardError"`
	Backlog                    float64 `json:"backlog"`
	BacklogStandardError       float64 `json:"backlogStandardError"`
	BurstUse                   float64 `json:"burstUse"`
	BurstUseStandardError      float64 `json:"burstUseStandardError"`
}

func newServed(g interference.GroupResult) served {
	return served{
		g.ThrottleRatio.Value, g.ThrottleRatio.StandardError,
		g.Backlog.Value, g.Backlog.StandardError,
		g.BurstUse.Value, g.BurstUse.StandardError,
	}
}

// servedGroup are those of a recorded group.
type servedGroup struct {
	File            string  `json:"file"`
	Group           string  `json:"group"`
	Name            string  `json:"name,omitempty"`
	RecordedPeriods int     `json:"recordedPeriods"`
	PeriodSeconds   float64 `json:"periodSeconds"`
	BlockLength     float64 `json:"blockLength,omitempty"` // periods
	Mean            float64 `json:"mean"`
	Cgroups         int     `json:"cgroups"`
	Quota           float64 `json:"quota"`
	served
}

func (s *scenario) simulations(done []simulated) []simulation {
	var out []simulation
	for _, d := range done {
		one := simulation{
			Distribution: d.name, Mean: d.mean, Cgroups: d.cgroups, Burst: d.burst, Rule: d.Rule.String(),
			Quota: d.quota, Capacity: d.capacity, Seed: s.effort.seed, Periods: d.Periods,
			ExpectedWCET: d.ExpectedWCET.Value, ExpectedWCETStandardError: d.ExpectedWCET.StandardError,
			ProbabilityWCET1: d.ProbabilityWCET1.Value, ProbabilityWCET1StandardError: d.ProbabilityWCET1.StandardError,
			WCET: d.WCET[1:], served: newServed(d.average()), Warnings: append(s.replay.doubts(), d.Warnings...),
		}
		if one.Warnings == nil {
			one.Warnings = []string{}
		}
		if len(s.replay.kinds) > 0 {
			one.Order, one.Groups = s.replay.order.value, s.replay.servedGroups(d)
		}
		out = append(out, one)
	}
	return out
}

func (r *replayed) servedGroups(d simulated) []servedGroup {
	var out []servedGroup
	for i, k := range r.kinds {
		g := servedGroup{
			File: k.file, Group: k.group, Name: k.name, RecordedPeriods: len(k.CPUs), PeriodSeconds: k.Period.Seconds(),
			Mean: d.groups[i].Demand.Mean(), Cgroups: d.groups[i].Count, Quota: d.groups[i].Quota, served: newServed(d.Groups[i]),
		}
		if r.order.value == orderBlocks {
			g.BlockLength = r.blocks[i].periods
		}
		out = append(out, g)
	}
	return out
}

// average returns the figures of one group on average over all; amounts in multiples of the
// average quota. As kinds of groups hang together, their standard errors are added up, which is
// more than it is rather than less.
func (s *simulated) average() interference.GroupResult {
	if len(s.Groups) == 1 {
		return s.Groups[0]
	}
	var all interference.GroupResult
	for i, g := range s.Groups {
		share := float64(s.groups[i].Count) / float64(s.cgroups)
		amount := share * s.groups[i].Quota / s.quota
		add(&all.ThrottleRatio, g.ThrottleRatio, share)
		add(&all.Demand, g.Demand, amount)
		add(&all.Backlog, g.Backlog, amount)
		add(&all.BurstUse, g.BurstUse, amount)
	}
	return all
}

func add(to *interference.Estimate, e interference.Estimate, weight float64) {
	to.Value += weight * e.Value
	to.StandardError += weight * e.StandardError
}
