package verdict

import (
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/bandwidth/bandwidthtest"
	"pinfold.dev/pinfold/core/needed"
	"pinfold.dev/pinfold/core/verdict"
	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/must"
)

// TestMeasured compares the verdicts on recordings of which an agent has counted single periods with
// docs/results/fleet/measured.md and docs/advice.md.
func TestMeasured(t *testing.T) {
	var table strings.Builder
	all := recordings(t, unseen)
	var cases []judged
	for i := range all {
		for _, before := range throttledBefore() {
			c := judged{recorded: &all[i], before: before, limit: max(leastLimit, all[i].limitFor(before))}
			c.windows, c.verdict = c.recorded.measure(t, c.limit)
			if c.verdict.Advised > 0 {
				c.got, _ = c.recorded.replay(c.verdict.Advised, 1)
				t.Logf("%-18s %4.0f%% of %.3f: %-7s %.3f throttles %.2f%%: %s", c.recorded.name, 100*c.before, c.limit, c.verdict.Action, c.verdict.Advised, 100*c.got, c.verdict.Reason)
			}
			cases = append(cases, c)
		}
	}
	s := score(cases)
	s.table(&table)
	rulesTable(&table, cases, rules(nil)[:3])
	if s.near < .9 || s.most > .05 || s.abstained > 0 {
		t.Errorf("%+v", s)
	}
	if shown := string(must.Get(os.ReadFile("../../docs/advice.md"))(t)); !strings.Contains(shown, strings.TrimSpace(table.String())) {
		t.Errorf("docs/advice.md does not show\n%s", table.String())
	}
	golden.Compare(t, "../../docs/results/fleet/measured.md", table.String())
}

// leastLimit is the smallest limit that the kernel takes, in CPUs, for periods of 100 ms.
const leastLimit = .01

// cores are those of the machine on which the programs were recorded.
const cores = 2

// measure returns what counters say every half minute of a program under a limit, and the verdict with what an
// agent has counted. The program's work comes in ten parts of each period, and runs on all cores.
func (r *recorded) measure(t *testing.T, limit float64) (windows []verdict.Window, v verdict.Verdict) {
	limits := bandwidth.Limits{Quota: time.Duration(limit * float64(verdict.Period)).Round(time.Microsecond), Period: verdict.Period}
	const parts, phase = 10, 37 * time.Millisecond
	s := must.Get(bandwidthtest.NewServer(cores, phase, limits))(t)
	var before, begin bandwidthtest.Stats
	var meter needed.Meter
	var wanted, need needed.Histogram
	for i, cpus := range r.cpus {
		at := time.Duration(i) * verdict.Period
		for part := range time.Duration(parts) {
			s.Advance(at + part*verdict.Period/parts)
			if work := time.Duration(cpus * float64(verdict.Period) / parts / cores); work > 0 {
				for range cores {
					s.Submit(work)
				}
			}
		}
		s.Advance(at + verdict.Period)
		now := s.Stats()
		sample := now.Sample(before, at+verdict.Period, verdict.Period, limits)
		meter.Add(&sample, func(p needed.Period) {
			wanted.Add(p.CPUs)
			need.Add(p.Limit)
		})
		if before = now; (i+1)%window == 0 {
			windows = append(windows, verdict.Window{Time: time.Duration(window) * verdict.Period, Usage: now.Usage - begin.Usage, Limit: limit, Counted: true,
				Periods: float64(now.Periods - begin.Periods), Throttled: float64(now.Throttled - begin.Throttled)})
			begin = now
		}
	}
	return windows, verdict.OfMeasured(windows, verdict.Measured{Limits: countsOf(&need), CPUs: countsOf(&wanted)}, goal)
}

func countsOf(h *needed.Histogram) verdict.Counts {
	buckets, zero, _, _ := h.Counts()
	counts := verdict.Counts{needed.ZeroUpTo: float64(zero)}
	for bucket, n := range buckets {
		counts[math.Exp2(float64(bucket)/(1<<needed.Schema))] = float64(n)
	}
	return counts
}
