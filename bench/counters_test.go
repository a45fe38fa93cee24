package bench_test

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/bandwidth/bandwidthtest"
	"pinfold.dev/pinfold/core/counters"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/tracefile"
)

// machineCPUs is how many CPUs the machine of all recordings has.
const machineCPUs = 2

// TestRecordings judges advice on recordings of programs without a limit: the real ones of
// bench/programs, and those of the lab's experiments. The kernel's model runs each recording under
// limits of 1.25 to 5 times its mean usage. What it counts is all that a rule is told. Then the model
// runs the recording under the advised limit. No rule has a parameter that was chosen with the
// recordings of bench/programs.
//
// Under the limit that package counters advises, at most the goal's share and two points of all
// periods may be throttled in 90% of the cases, and five in all. With agents it must know the limit in
// 70% of them. docs/advice.md has the table of all rules.
func TestRecordings(t *testing.T) {
	files := must.Get(filepath.Glob("../docs/results/*/usage.parquet"))(t)
	var cases []recordedCase
	recordings := 0
	for _, file := range append(files, "testdata/programs.parquet") {
		recording, _, err := tracefile.Read(file, 0)
		must.Do(t, err)
		for i := range recording.Series {
			s := &recording.Series[i]
			if summary := trace.Summarise(s, recording.Interval); s.Samples[0].Limits.Quota <= 0 && summary.CPUs() > .01 {
				recordings++
				cases = append(cases, casesOf(t, s, summary.CPUs())...)
			}
		}
	}
	rows := []string{"| advice | over 1% throttled | median | nine in ten | all | limits | largest |", "|---|--:|--:|--:|--:|--:|--:|"}
	goal := counters.DefaultGoal().Throttled
	for _, r := range rules() {
		var left, times []float64
		var limits, least float64
		missed := 0
		for i := range cases {
			c := &cases[i]
			limit := r.advise(t, c)
			share := 0. // without a limit
			if limit < machineCPUs {
				share = shareOf(c.under(t, limit).whole)
			}
			left = append(left, share)
			limit = min(limit, machineCPUs)
			limits, least, times = limits+limit, least+c.least, append(times, limit/c.least)
			if share > goal {
				missed++
			}
		}
		slices.Sort(left)
		n := len(left)
		rows = append(rows, fmt.Sprintf("| %s | %d of %d | %.1f%% | %.1f%% | %.1f%% | %.2f | %.1f |", r.name, missed, n,
			100*left[n/2], 100*left[n*9/10], 100*left[n-1], limits/least, slices.Max(times)))
		if r.judged && (left[n*9/10] > goal+.02 || left[n-1] > goal+.05) {
			t.Errorf("%s: under the %d advised limits, %.1f%% of all periods are throttled in nine cases of ten, and %.1f%% in all", r.name, n, 100*left[n*9/10], 100*left[n-1])
		}
	}
	for _, agents := range []bool{false, true} {
		low, record := 0, 0
		for i := range cases {
			v := cases[i].judge(t, agents)
			if v.Finding == counters.Throttled {
				low++
			}
			if v.RecordingNeeded || v.Finding == counters.Undecided {
				record++
			}
		}
		t.Logf("with agents: %v; of %d limits %d are too low, and for %d the advice is to record", agents, len(cases), low, record)
		if agents && 10*record > 3*len(cases) {
			t.Errorf("with agents, %d of %d limits are not known", record, len(cases))
		}
	}
	t.Logf("%d recordings", recordings)
	if recordings < 30 || len(cases) < 100 {
		t.Errorf("only %d recordings and %d limits", recordings, len(cases))
	}
	table := strings.Join(rows, "\n")
	if !strings.Contains(string(must.Get(os.ReadFile("../docs/advice.md"))(t)), table) {
		t.Errorf("docs/advice.md has another table than\n%s", table)
	}
}

// rule advises a limit.
type rule struct {
	name   string
	judged bool
	advise func(*testing.T, *recordedCase) float64
}

// rules returns those that are compared. The Vertical Pod Autoscaler adds 15% to the 90th percentile
// of usage in minutes, in buckets that grow by 5% from 0.01 CPUs on, for a request of at least 0.025
// CPUs, and keeps the ratio of limit and request. krr requests the 95th percentile of windows of 75
// seconds and removes the limit; whoever needs one takes the request.
func rules() []rule {
	vpa := func(ratio float64) func(*testing.T, *recordedCase) float64 {
		return func(_ *testing.T, c *recordedCase) float64 {
			high, bucket, end := c.usage(.9, time.Minute), .01, .01
			for end < high {
				bucket *= 1.05
				end += bucket
			}
			return ratio * max(1.15*end, .025)
		}
	}
	pinfold := func(agents bool) func(*testing.T, *recordedCase) float64 {
		return func(t *testing.T, c *recordedCase) float64 {
			v := c.judge(t, agents)
			if v.NewLimit != nil {
				return v.NewLimit.To
			}
			return c.limit
		}
	}
	return []rule{
		{name: "none", advise: func(_ *testing.T, c *recordedCase) float64 { return c.limit }},
		{name: "`pinfold advise`, from counters", judged: true, advise: pinfold(false)},
		{name: "`pinfold advise`, with agents", judged: true, advise: pinfold(true)},
		{name: "VPA, limit = request", advise: vpa(1)},
		{name: "VPA, limit = 2 times the request", advise: vpa(2)},
		{name: "krr, with its request as limit", advise: func(_ *testing.T, c *recordedCase) float64 { return c.usage(.95, 75*time.Second) }},
		{name: "krr, which removes the limit", advise: func(*testing.T, *recordedCase) float64 { return machineCPUs }},
	}
}

// recordedCase is a recording under a limit.
type recordedCase struct {
	series       *trace.Series
	limit, least float64 // in CPUs; the least limit that reaches the goal, to 5%
	counted      counted
}

// casesOf returns those of a recording with a mean usage.
func casesOf(t *testing.T, s *trace.Series, mean float64) (cases []recordedCase) {
	t.Helper()
	c := recordedCase{series: s}
	low, most := mean, float64(machineCPUs)
	for most > 1.05*low {
		if middle := math.Sqrt(low * most); shareOf(c.under(t, middle).whole) > counters.DefaultGoal().Throttled {
			low = middle
		} else {
			most = middle
		}
	}
	c.least = most
	for _, factor := range []float64{1.25, 1.5, 2, 3, 5} {
		if c.limit = factor * mean; c.limit < machineCPUs {
			c.counted = c.under(t, c.limit)
			cases = append(cases, c)
		}
	}
	return cases
}

// counted is what the kernel counts.
type counted struct {
	whole   bandwidthtest.Stats
	samples []trace.Sample // one per period
}

// under runs the recorded demand under a limit.
func (c *recordedCase) under(t *testing.T, limit float64) (n counted) {
	t.Helper()
	quota := time.Duration(limit * float64(trace.DefaultPeriod)).Round(time.Microsecond)
	limits := bandwidth.Limits{Quota: quota, Period: trace.DefaultPeriod}
	g := must.Get(bandwidthtest.NewGroup(bandwidthtest.Kernel(machineCPUs), limits))(t)
	var period bandwidthtest.Stats
	var begin time.Duration
	for i := range c.series.Samples {
		sample := &c.series.Samples[i]
		threads := min(int(math.Ceil(.999*sample.CPUs())), machineCPUs)
		for range threads {
			g.Submit(bandwidthtest.Request{Work: max(sample.Usage/time.Duration(threads), 1), CPU: bandwidthtest.AnyCPU})
		}
		g.Advance(g.Now() + sample.Interval)
		if took := g.Now() - begin; took >= trace.DefaultPeriod {
			n.samples = append(n.samples, g.Stats().Sample(period, g.Now(), took, limits))
			period, begin = g.Stats(), g.Now()
		}
	}
	n.whole = g.Stats()
	return n
}

func shareOf(s bandwidthtest.Stats) float64 { return float64(s.Throttled) / float64(s.WallPeriods) }

// usage returns a quantile of the usage in windows, in CPUs. A recording that is shorter is one.
func (c *recordedCase) usage(quantile float64, window time.Duration) float64 {
	var windows []float64
	var used, took time.Duration
	for i, s := range c.counted.samples {
		used, took = used+s.Usage, took+s.Interval
		if took >= window || i == len(c.counted.samples)-1 && windows == nil {
			windows = append(windows, used.Seconds()/took.Seconds())
			used, took = 0, 0
		}
	}
	slices.Sort(windows)
	return windows[min(int(quantile*float64(len(windows))), len(windows)-1)]
}

// judge judges what was counted, as if it had gone on so for a week, and also with the histogram of
// agents.
func (c *recordedCase) judge(t *testing.T, agents bool) counters.Verdict {
	t.Helper()
	const days = 7
	day, n := 24*time.Hour, c.counted.whole
	times := float64(day/trace.DefaultPeriod) / float64(n.WallPeriods)
	mean := n.Usage.Seconds() / (time.Duration(n.WallPeriods) * trace.DefaultPeriod).Seconds()
	one := counters.Container{Limit: c.limit, Period: trace.DefaultPeriod, Sampled: days * times * float64(n.WallPeriods)}
	for range days {
		one.Slices = append(one.Slices, counters.Slice{Seen: day, Mean: mean, High: mean, Periods: times * float64(n.Periods),
			Throttled: times * float64(n.Throttled), ThrottledSeconds: times * n.ThrottledTime.Seconds()})
	}
	if agents {
		series := trace.Series{Samples: c.counted.samples}
		if demand, err := series.Demand(trace.DefaultPeriod, trace.DefaultPeriod); err == nil && demand.Open == 0 {
			one.Demand = histogram(demand.CPUs, one.Sampled/float64(len(c.counted.samples)))
		}
	}
	return counters.Judge([]counters.Container{one}, day, counters.DefaultGoal())
}

// histogram counts demand in buckets that grow by 9%, as those of agents.
func histogram(cpus []float64, times float64) counters.Histogram {
	const zero = 1e-3
	byBucket := map[int]float64{}
	lowest := int(math.Floor(8 * math.Log2(zero)))
	for _, v := range cpus {
		bucket := lowest
		if v > zero {
			bucket = int(math.Ceil(8 * math.Log2(v)))
		}
		byBucket[bucket] += times
	}
	var h counters.Histogram
	for bucket, n := range byBucket {
		b := counters.Bucket{Low: math.Exp2(float64(bucket-1) / 8), High: math.Exp2(float64(bucket) / 8), Periods: n}
		if bucket == lowest {
			b.Low = 0
		}
		h = append(h, b)
	}
	slices.SortFunc(h, func(a, b counters.Bucket) int { return cmp.Compare(a.Low, b.Low) })
	return h
}
