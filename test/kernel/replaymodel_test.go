package kernel

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/bandwidth/bandwidthtest"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/linux/cgroup/cgroupstat"
	"pinfold.dev/pinfold/test/must"
)

// replayed is a recording, and the kernel's results for the same load under limits.
type replayed struct {
	name     string
	limits   bandwidth.Limits
	recorded *trace.Series
	kernel   cgroupstat.Stat
	length   time.Duration
}

// replay is the model's result for a recording: the mean over the possible phases of periods, and
// the range of nr_throttled.
type replay struct {
	throttled        float64
	burstTime, usage time.Duration
	low, high        int64
}

// predict replays the recording under limits.
func (r replayed) predict(t *testing.T, l bandwidth.Limits) replay {
	t.Helper()
	const phases = int(period / sampled)
	p := replay{low: math.MaxInt64}
	for phase := range phases {
		n := inModel(t, r.recorded, phase, l)
		p.throttled += float64(n.Throttled) / float64(phases)
		p.burstTime += n.BurstTime / time.Duration(phases)
		p.usage += n.Usage / time.Duration(phases)
		p.low, p.high = min(p.low, n.Throttled), max(p.high, n.Throttled)
	}
	return p
}

// inModel returns the effect of limits on a recording whose first period ends after the given number
// of samples: that of its demand in each period on a bandwidthtest.Controller, until all is served.
func inModel(t *testing.T, recorded *trace.Series, phase int, l bandwidth.Limits) bandwidthtest.Stats {
	t.Helper()
	d := must.Get((&trace.Series{Samples: recorded.Samples[phase:]}).Demand(sampled, l.Period))(t)
	c := must.Get(bandwidthtest.NewController(l))(t)
	for _, cpus := range d.CPUs {
		c.Step(time.Duration(cpus * float64(l.Period)))
	}
	for c.Backlog() > 0 {
		c.Step(0)
	}
	return c.Stats()
}

// judged is the model, with limits that make it wrong, if any.
type judged struct {
	name   string
	limits func(bandwidth.Limits) bandwidth.Limits
}

func rightModel() judged {
	return judged{"per period", func(l bandwidth.Limits) bandwidth.Limits { return l }}
}

// wrongModels are the models that the test must reject.
func wrongModels() []judged {
	times := func(factor float64) func(bandwidth.Limits) bandwidth.Limits {
		return func(l bandwidth.Limits) bandwidth.Limits {
			l.Quota = time.Duration(factor * float64(l.Quota))
			l.Burst = min(l.Burst, l.Quota)
			return l
		}
	}
	return []judged{
		{"without burst", func(l bandwidth.Limits) bandwidth.Limits { l.Burst = 0; return l }},
		{"with 0.7 of the quota", times(0.7)},
		{"with 1.3 of the quota", times(1.3)},
	}
}

// modelError is the difference between the model and the kernel, as in docs/figures.md.
type modelError struct {
	Model   string  `json:"model"`
	Machine string  `json:"machine"`
	CPUs    int     `json:"cpus"`
	Periods float64 `json:"periods"` // of wall-clock time, in all rows
	// Throttled is the mean over rows of the absolute difference of the share of throttled wall
	// periods, Largest its maximum, and Bias the mean of the signed difference (positive if the
	// model's is higher).
	Throttled float64 `json:"throttled"`
	Largest   float64 `json:"largest"`
	Bias      float64 `json:"bias"`
	// InRange is the share of rows in which nr_throttled is within the range over phases.
	InRange float64 `json:"inRange"`
	// BurstTime and Usage are relative differences of the totals.
	BurstTime float64 `json:"burstTime"`
	Usage     float64 `json:"usage"`
}

func (m judged) errorOf(t *testing.T, rows []replayed) modelError {
	t.Helper()
	e := modelError{Model: m.name, Machine: machine(t), CPUs: runtime.NumCPU()}
	var burst, burstOff, usage, usageOff time.Duration
	n := float64(len(rows))
	for _, r := range rows {
		p := r.predict(t, m.limits(r.limits))
		periods := float64(r.length / period)
		off := (p.throttled - float64(r.kernel.Throttled)) / periods
		e.Periods += periods
		e.Throttled += math.Abs(off) / n
		e.Bias += off / n
		e.Largest = max(e.Largest, math.Abs(off))
		if k := int64(r.kernel.Throttled); p.low <= k && k <= p.high {
			e.InRange += 1 / n
		}
		if !r.kernel.NoBursts {
			burst, burstOff = burst+r.kernel.BurstTime, burstOff+p.burstTime-r.kernel.BurstTime
		}
		usage, usageOff = usage+r.kernel.Usage, usageOff+p.usage-r.kernel.Usage
	}
	if burst > 0 {
		e.BurstTime = math.Abs(float64(burstOff) / float64(burst))
	}
	e.Usage = math.Abs(float64(usageOff) / float64(usage))
	return e
}

func table(t *testing.T, rows []replayed) string {
	t.Helper()
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "load\tquota\tburst\tthrottled, model\trange over phases\tkernel\tburst time, model\tkernel\tused, model\tkernel")
	for _, r := range rows {
		p, periods := r.predict(t, r.limits), float64(r.length/period)
		share := func(n float64) string { return fmt.Sprintf("%.1f%%", 100*n/periods) }
		fmt.Fprintf(w, "%s\t%v\t%v\t%s\t%s to %s\t%s\t%v\t%v\t%v\t%v\n", r.name, r.limits.Quota, r.limits.Burst,
			share(p.throttled), share(float64(p.low)), share(float64(p.high)), share(float64(r.kernel.Throttled)),
			p.burstTime.Round(ms), r.kernel.BurstTime.Round(ms), p.usage.Round(ms), r.kernel.Usage.Round(ms))
	}
	must.Do(t, w.Flush())
	return b.String()
}
