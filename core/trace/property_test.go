package trace_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/core/trace"
)

// drawSeries draws a series with jitter, late samples, gaps and throttling.
func drawSeries(t *rapid.T) (*trace.Series, time.Duration) {
	nominal := rapid.SampledFrom([]time.Duration{1, 7, 100, time.Millisecond, 100 * time.Millisecond}).Draw(t, "nominal")
	s := &trace.Series{}
	now := time.Duration(rapid.IntRange(0, 1000).Draw(t, "begin"))
	for range rapid.IntRange(0, 60).Draw(t, "samples") {
		sample := trace.Sample{Interval: nominal, Limits: bandwidth.Limits{Quota: nominal, Period: nominal}}
		switch rapid.IntRange(0, 9).Draw(t, "kind") {
		case 0:
			sample.Interval, sample.Late = time.Duration(rapid.Int64Range(int64(nominal)+1, 12*int64(nominal)+1).Draw(t, "late")), true
		case 1, 2, 3:
			sample.Interval = time.Duration(rapid.Int64Range(1, 2*int64(nominal)).Draw(t, "jitter"))
		case 4:
			now += time.Duration(rapid.Int64Range(1, 5*int64(nominal)).Draw(t, "gap"))
		}
		now += sample.Interval
		sample.At = now
		sample.Usage = time.Duration(rapid.Int64Range(0, 4).Draw(t, "usage")) * sample.Interval / 2
		sample.Throttled = uint32(rapid.IntRange(0, 5).Draw(t, "throttled") / 5)
		s.Samples = append(s.Samples, sample)
	}
	return s, nominal
}

// TestTimescalesProperty compares the result with that of trying every pair of samples.
func TestTimescalesProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, nominal := drawSeries(t)
		lengths := trace.Lengths(nominal, 70*nominal)
		if diff := cmp.Diff(slowTimescales(s, nominal, lengths), trace.TimescalesAt(s, nominal, lengths)); diff != "" {
			t.Errorf("scales differ (-slow +fast):\n%s", diff)
		}
	})
}

func slowTimescales(s *trace.Series, nominal time.Duration, lengths []time.Duration) []trace.Scale {
	scales := []trace.Scale{}
	for _, w := range lengths {
		sc := trace.Scale{Window: quantity.Seconds{Duration: w}}
		var figures []float64
		throttled := 0
		for i := range s.Samples {
			best := slowWindow{}
			for j := i + 1; j <= len(s.Samples) && contiguous(s.Samples[i:j], nominal); j++ {
				next := sumUp(s.Samples[i:j])
				if best.length == 0 || (next.length-w).Abs() <= (best.length-w).Abs() {
					best = next
				}
			}
			if off := (best.length - w).Abs(); off > nominal/2 && off > w/100 {
				continue
			}
			cpus := float64(best.usage) / float64(best.length)
			if best.throttled {
				throttled++
			}
			if len(figures) == 0 || cpus > sc.Max {
				sc.Max, sc.MaxEnd.Duration, sc.MaxThrottled = cpus, best.end, best.throttled
			}
			figures = append(figures, cpus)
		}
		if sc.Windows = len(figures); sc.Windows > 0 {
			slices.Sort(figures)
			below := 0 // the number of values that may exceed the 99th percentile
			for (below+1)*100 <= len(figures) {
				below++
			}
			sc.P99 = figures[len(figures)-1-below]
			sc.Throttled = new(float64(throttled) / float64(len(figures)))
			scales = append(scales, sc)
		}
	}
	return scales
}

type slowWindow struct {
	usage, length, end time.Duration
	throttled          bool
}

func sumUp(samples []trace.Sample) slowWindow {
	w := slowWindow{end: samples[len(samples)-1].At}
	for _, s := range samples {
		w.usage += s.Usage
		w.length += s.Interval
		w.throttled = w.throttled || s.Throttled > 0 || s.ThrottledTime > 0
	}
	return w
}

func contiguous(samples []trace.Sample, nominal time.Duration) bool {
	for i := 1; i < len(samples); i++ {
		if (samples[i].At - samples[i].Interval - samples[i-1].At).Abs() > nominal/100 {
			return false
		}
	}
	return true
}

// TestSummaryProperty compares the statistics with those of a list that contains each bin once per
// nanosecond.
func TestSummaryProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		period := time.Duration(rapid.IntRange(1, 12).Draw(t, "period"))
		const nominal = 4
		s := &trace.Series{}
		now := time.Duration(0)
		for range rapid.IntRange(0, 30).Draw(t, "samples") {
			length := time.Duration(rapid.IntRange(1, 9).Draw(t, "length"))
			now += length
			if rapid.IntRange(0, 7).Draw(t, "gap") == 0 {
				now += 3
			}
			s.Samples = append(s.Samples, trace.Sample{
				At: now, Interval: length, Usage: time.Duration(rapid.IntRange(0, 20).Draw(t, "usage")),
				Limits: bandwidth.Limits{Quota: 1, Period: period},
			})
		}
		got := trace.Summarise(s, nominal).PerPeriod
		want := slowStats(s, period, nominal)
		near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) <= 1e-9*(1+math.Abs(a)) })
		if diff := cmp.Diff(want, got, near); diff != "" {
			t.Errorf("statistics differ (-slow +fast):\n%s", diff)
		}
	})
}

func slowStats(s *trace.Series, period, nominal time.Duration) trace.Stats {
	var each []float64 // a value per nanosecond
	var stats trace.Stats
	var usage, length time.Duration
	begin := 0
	for i := range s.Samples {
		usage += s.Samples[i].Usage
		length += s.Samples[i].Interval
		if !contiguous(s.Samples[begin:i+1], nominal) {
			begin = i
		}
		bin := sumUp(s.Samples[begin : i+1])
		if 2*bin.length >= 2*period-nominal {
			for range bin.length {
				each = append(each, float64(bin.usage)/float64(bin.length))
			}
			stats.Bins++
			begin = i + 1
		}
	}
	if length > 0 {
		stats.Mean = float64(usage) / float64(length)
	}
	if len(each) == 0 {
		return stats
	}
	slices.Sort(each)
	at := func(q float64) float64 { return each[int(math.Ceil(q*float64(len(each))-1e-9))-1] }
	stats.P95, stats.P99, stats.Max = at(.95), at(.99), at(1)
	mean, squares := 0.0, 0.0
	for _, v := range each {
		mean += v / float64(len(each))
	}
	for _, v := range each {
		squares += (v - mean) * (v - mean) / float64(len(each))
	}
	stats.SD = math.Sqrt(squares)
	return stats
}

func TestLengths(t *testing.T) {
	for _, c := range []struct {
		nominal, longest time.Duration
		count            int
	}{
		{100 * time.Millisecond, time.Minute, 66},
		{time.Millisecond, time.Minute, 116},
		{time.Minute, time.Minute, 1},
		{time.Hour, time.Minute, 1},
		{0, time.Minute, 0},
	} {
		got := trace.Lengths(c.nominal, c.longest)
		if len(got) != c.count {
			t.Errorf("Lengths(%v, %v) has %d lengths, want %d: %v", c.nominal, c.longest, len(got), c.count, got)
		}
		for i, w := range got {
			if w%c.nominal != 0 || i > 0 && (w <= got[i-1] || w > got[i-1]+max(c.nominal, got[i-1]/9)) {
				t.Errorf("Lengths(%v, %v): %v after %v", c.nominal, c.longest, w, got[max(i-1, 0)])
			}
		}
	}
}

func TestValidate(t *testing.T) {
	good := trace.Sample{Interval: 1, Limits: bandwidth.Limits{Quota: bandwidth.Unlimited}}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func(*trace.Sample){
		"no interval":        func(s *trace.Sample) { s.Interval = 0 },
		"long interval":      func(s *trace.Sample) { s.Interval = math.MaxInt64 },
		"late in time":       func(s *trace.Sample) { s.At = math.MaxInt64 },
		"negative usage":     func(s *trace.Sample) { s.Usage = -1 },
		"negative throttled": func(s *trace.Sample) { s.ThrottledTime = -1 },
		"no quota":           func(s *trace.Sample) { s.Limits.Quota = 0 },
		"quota, no period":   func(s *trace.Sample) { s.Limits.Quota = 1 },
		"negative period":    func(s *trace.Sample) { s.Limits.Period = -1 },
	} {
		bad := good
		spoil(&bad)
		if bad.Validate() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
