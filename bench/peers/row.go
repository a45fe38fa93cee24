package main

import (
	"slices"
	"time"

	"pinfold.dev/pinfold/core/placement"
)

// Row says how one contender did on the free sets of one case.
type Row struct {
	Machine string  `json:"machine"`
	Free    scatter `json:"free"`
	CPUs    int     `json:"cpus"` // wanted
	Chooser string  `json:"chooser"`
	Sets    int     `json:"sets"` // free sets

	// Means over the free sets; see [placement.Quality].
	NUMANodes  float64 `json:"numaNodes"`
	Distance   float64 `json:"distance"`
	SplitCores float64 `json:"splitCores"`
	LLCs       float64 `json:"llcs"`

	// Verdicts counts the free sets by how the answer stands beside Pinfold's.
	Verdicts map[verdict]int `json:"verdicts"`
	// Median is the CPU time of a decision, 0 when times are left out.
	Median time.Duration `json:"medianNanoseconds,omitempty"`
}

// tally adds up the answers of a row.
type tally struct {
	sum      placement.Quality
	verdicts map[verdict]int
	times    []time.Duration
}

func (t *tally) add(q placement.Quality, v verdict, took time.Duration) {
	t.sum.NUMANodes += q.NUMANodes
	t.sum.Distance += q.Distance
	t.sum.SplitCores += q.SplitCores
	t.sum.LLCs += q.LLCs
	t.verdicts[v]++
	t.times = append(t.times, took)
}

// row returns the means of what was added, which is at least one answer.
func (t *tally) row(chooser string, cpus int) Row {
	slices.Sort(t.times)
	n := len(t.times)
	mean := func(sum int) float64 { return float64(sum) / float64(n) }
	return Row{
		CPUs: cpus, Chooser: chooser, Sets: n,
		NUMANodes: mean(t.sum.NUMANodes), Distance: mean(t.sum.Distance),
		SplitCores: mean(t.sum.SplitCores), LLCs: mean(t.sum.LLCs),
		Verdicts: t.verdicts, Median: t.times[n/2],
	}
}
