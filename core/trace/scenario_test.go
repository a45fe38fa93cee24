package trace_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/must"
)

// TestScenarios summarises the series of testdata/*.txtar. The section "series" has a line
// "interval D" and then a line per sample: its usage, and optionally
//
//	for D            its length, by default the nominal interval
//	after D          the length of a gap before it
//	throttled D      throttled time, in one period
//	burst D          time used beyond quota, in one period
//	late             the sample is late
//	times N          N such samples
//
// "limit QUOTA/PERIOD" sets the limit for the following samples. The section "want" is the summary.
func TestScenarios(t *testing.T) {
	golden.Archives(t, "testdata/*.txtar", "want", func(t *testing.T, archive *txtar.Archive) string {
		if len(archive.Files) != 1 {
			t.Fatal("want the sections series and want")
		}
		return describe(parseSeries(t, string(archive.Files[0].Data)))
	})
}

// describe prints the summary of a series and its timescales, without those that equal the previous
// one.
func describe(s *trace.Series, nominal time.Duration) string {
	var b strings.Builder
	sum := trace.Summarise(s, nominal)
	fmt.Fprintf(&b, "%d samples, %d late, %d gaps, %v, used %v, %.4g CPUs\n", sum.Samples, sum.Late, sum.Gaps, sum.Time, sum.Usage, sum.CPUs())
	p := sum.PerPeriod
	fmt.Fprintf(&b, "%d bins: mean %.4g sd %.4g p95 %.4g p99 %.4g max %.4g\n", p.Bins, p.Mean, p.SD, p.P95, p.P99, p.Max)
	fmt.Fprintf(&b, "throttled %d of %d timer periods (%.3g), of %.4g wall periods (%.3g), for %v; %.3g of the time doubtful\n",
		sum.Throttled, sum.Periods, sum.ThrottledOfTimer(), sum.WallPeriods, sum.ThrottledOfWall(), sum.ThrottledTime, sum.ThrottledShare)
	fmt.Fprintf(&b, "%d bursts, %v; limits changed %d times\n", sum.Bursts, sum.BurstTime, sum.LimitChanges)
	before := ""
	for _, sc := range trace.Timescales(s, nominal) {
		line := fmt.Sprintf("max %.4g p99 %.4g throttled %.3g %v", sc.Max, sc.P99, *sc.Throttled, sc.MaxThrottled)
		if line != before {
			fmt.Fprintf(&b, "%v: %s, until %v, of %d\n", sc.Window, line, sc.MaxEnd, sc.Windows)
		}
		before = line
	}
	return b.String()
}

func parseSeries(t *testing.T, text string) (*trace.Series, time.Duration) {
	s := &trace.Series{Group: "/a"}
	var nominal, now time.Duration
	limits := bandwidth.Limits{Quota: bandwidth.Unlimited, Period: trace.DefaultPeriod}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		switch words[0] {
		case "interval":
			nominal = duration(t, words[1])
			continue
		case "limit":
			quota, period, _ := strings.Cut(words[1], "/")
			limits.Quota, limits.Period = duration(t, quota), duration(t, period)
			continue
		}
		sample, gap, times := parseSample(t, words, nominal)
		sample.Limits = limits
		for range times {
			now += gap + sample.Interval
			sample.At = now
			s.Samples = append(s.Samples, sample)
		}
	}
	return s, nominal
}

func parseSample(t *testing.T, words []string, nominal time.Duration) (s trace.Sample, gap time.Duration, times int) {
	s = trace.Sample{Interval: nominal, Usage: duration(t, words[0])}
	times = 1
	for rest := words[1:]; len(rest) > 0; {
		word := rest[0]
		rest = rest[1:]
		if word == "late" {
			s.Late = true
			continue
		}
		if word == "times" {
			must.Get(fmt.Sscan(rest[0], &times))(t)
			rest = rest[1:]
			continue
		}
		d := duration(t, rest[0])
		rest = rest[1:]
		switch word {
		case "for":
			s.Interval = d
		case "after":
			gap = d
		case "throttled":
			s.Periods, s.Throttled, s.ThrottledTime = 1, 1, d
		case "burst":
			s.Periods, s.Bursts, s.BurstTime = 1, 1, d
		default:
			t.Fatalf("unknown word %q", word)
		}
	}
	return s, gap, times
}

func duration(t *testing.T, text string) time.Duration {
	return must.Get(time.ParseDuration(text))(t)
}
