// Package verdict judges package core/verdict by programs that were recorded period by period: their
// recordings are reduced to counters under several limits, and what the verdict predicts is compared with
// a replay. It also asks a real Prometheus for such counters.
package verdict

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/verdict"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/tracefile"
)

// Recordings that "pinfold-lab fleet" made: those with which package verdict was made, and others.
const fleet, unseen = "../../docs/results/fleet/fleet.parquet", "../../docs/results/fleet/fleet-2.parquet"

// recorded is the demand of a program under a load in each period, in CPUs.
type recorded struct {
	name string // such as /python/random
	cpus []float64
}

// window is how many periods are between two readings of counters, and stepped how many at the default step of
// 'pinfold advise'.
const window, stepped = int(30 * time.Second / verdict.Period), int(5 * time.Minute / verdict.Period)

// recordings returns all recordings of a file.
func recordings(t *testing.T, file string) (all []recorded) {
	t.Helper()
	rec, _, err := tracefile.Read(file, 0)
	must.Do(t, err)
	for i := range rec.Series {
		s := &rec.Series[i]
		d, err := s.Demand(rec.Interval, verdict.Period)
		if err != nil || d.Throttled > 0 {
			t.Fatalf("%s: throttled %v, %v", s.Group, d.Throttled, err)
		}
		all = append(all, recorded{s.Group, d.CPUs})
	}
	slices.SortFunc(all, func(a, b recorded) int { return strings.Compare(a.name, b.name) })
	return all
}

// repeated returns an hour that is made of a recording, which is shorter.
func (r *recorded) repeated() recorded {
	return recorded{r.name, slices.Repeat(r.cpus, max(1, int(time.Hour/verdict.Period)/len(r.cpus)))}
}

// replay returns the share of throttled periods under a limit with a burst, and what counters say of it every
// half minute.
func (r *recorded) replay(limit, burst float64) (share float64, windows []verdict.Window) {
	return r.replayEvery(window, limit, burst)
}

// replayEvery is replay with another time between two readings.
func (r *recorded) replayEvery(window int, limit, burst float64) (share float64, windows []verdict.Window) {
	const unit = 1e9
	var debt int64
	var ran bool
	throttled := 0
	quota, saved := int64(limit*unit), int64(burst*limit*unit)
	for all := range slices.Chunk(r.cpus, window) {
		w := verdict.Window{Limit: limit, Counted: true}
		for _, wanted := range all {
			before := debt
			debt = bandwidth.NextDebt(debt, int64(wanted*unit), quota)
			w.Time += verdict.Period
			// What is beyond the quota is done later.
			done := wanted*unit + float64(max(0, before-saved)-max(0, debt-saved))
			w.Usage += time.Duration(done / unit * float64(verdict.Period))
			runs := wanted > 0 || before > 0
			if runs || ran { // the timer ends after a period without anything to do
				w.Periods++
			}
			ran = runs
			if debt > saved {
				w.Throttled++
				throttled++
			}
		}
		windows = append(windows, w)
	}
	return float64(throttled) / float64(len(r.cpus)), windows
}

// limitFor returns the limit that throttles a share of the periods.
func (r *recorded) limitFor(share float64) float64 {
	low, high := 1e-4, 2*slices.Max(r.cpus)
	for range 40 {
		middle := (low + high) / 2
		if got, _ := r.replay(middle, 0); got > share {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}
