package main

// simulation is a combination with its answer, as JSON. Amounts of CPU time are in multiples
// of the quota, per period.
type simulation struct {
	Distribution                  string   `json:"distribution"`
	Mean                          float64  `json:"mean"`
	Cgroups                       int      `json:"cgroups"`
	Burst                         burst    `json:"burst"`
	Rule                          string   `json:"rule"`
	Quota                         float64  `json:"quota"`    // of each group, in the unit of the capacity
	Capacity                      float64  `json:"capacity"` // of the machine
	Seed                          uint64   `json:"seed"`
	Periods                       int64    `json:"periods"`
	ExpectedWCET                  float64  `json:"expectedWCET"`
	ExpectedWCETStandardError     float64  `json:"expectedWCETStandardError"`
	ProbabilityWCET1              float64  `json:"probabilityWCET1"`
	ProbabilityWCET1StandardError float64  `json:"probabilityWCET1StandardError"`
	WCET                          []int64  `json:"wcetPeriods"` // with a WCET of 1, 2, ...; the 4096th is that or more
	ThrottleRatio                 float64  `json:"throttleRatio"`
	ThrottleRatioStandardError    float64  `json:"throttleRatioStandardError"`
	Backlog                       float64  `json:"backlog"`
	BacklogStandardError          float64  `json:"backlogStandardError"`
	BurstUse                      float64  `json:"burstUse"`
	BurstUseStandardError         float64  `json:"burstUseStandardError"`
	Warnings                      []string `json:"warnings"`
}

func simulationsJSON(done []simulated, seed uint64) []simulation {
	var out []simulation
	for _, s := range done {
		g := s.Groups[0]
		out = append(out, simulation{
			Distribution: s.name, Mean: s.mean, Cgroups: s.cgroups, Burst: s.burst, Rule: s.Rule.String(),
			Quota: s.quota, Capacity: s.capacity, Seed: seed, Periods: s.Periods,
			ExpectedWCET: s.ExpectedWCET.Value, ExpectedWCETStandardError: s.ExpectedWCET.StandardError,
			ProbabilityWCET1: s.ProbabilityWCET1.Value, ProbabilityWCET1StandardError: s.ProbabilityWCET1.StandardError,
			WCET:          s.WCET[1:],
			ThrottleRatio: g.ThrottleRatio.Value, ThrottleRatioStandardError: g.ThrottleRatio.StandardError,
			Backlog: g.Backlog.Value, BacklogStandardError: g.Backlog.StandardError,
			BurstUse: g.BurstUse.Value, BurstUseStandardError: g.BurstUse.StandardError,
			Warnings: append([]string{}, s.Warnings...),
		})
	}
	return out
}
