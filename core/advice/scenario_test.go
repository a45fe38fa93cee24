package advice

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/bandwidth/bandwidthtest"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/need"
	"pinfold.dev/pinfold/test/race"
)

// TestScenarios advises on the recordings that testdata/*.txtar describe. The section "recording"
// has a load, which runs on 8 CPUs of a [bandwidthtest.Server], and how it is
// recorded:
//
//	for D                         how long
//	every D                       the sampling interval
//	limit CPUS BURST%             from the beginning; "after D limit ..." from later on
//	threads N work D every D      N simultaneous requests of D each; "at random" for exponential intervals
//	late N                        every Nth sample covers ten intervals
//
// The section "goal" has "throttled R", "met P" and "node CPUS limit CPUS".
func TestScenarios(t *testing.T) {
	race.SkipLong(t)
	scenarios(t, "testdata/*.txtar")
}

// TestLongScenarios has those that simulate hundreds of containers, or repeat another one.
func TestLongScenarios(t *testing.T) {
	need.This(t, "a long time")
	race.SkipLong(t)
	scenarios(t, "testdata/long/*.txtar")
}

func scenarios(t *testing.T, files string) {
	golden.Archives(t, files, "want", func(t *testing.T, given *txtar.Archive) string {
		if len(given.Files) != 2 {
			t.Fatal("want the sections recording, goal and want")
		}
		s, nominal := record(t, string(given.Files[0].Data))
		return advise(t, s, nominal, string(given.Files[1].Data))
	})
}

func advise(t *testing.T, s *trace.Series, nominal time.Duration, goals string) string {
	goal := DefaultGoal()
	var nodeCPUs, limitCPUs float64
	for line := range strings.Lines(goals) {
		words := strings.Fields(line)
		switch words[0] {
		case "throttled":
			goal.ThrottleRatio = number(t, words[1])
		case "met":
			goal.ProbabilityWCET1 = number(t, words[1])
		case "node":
			nodeCPUs, limitCPUs = number(t, words[1]), number(t, words[3])
		default:
			t.Fatalf("unknown word %q", words[0])
		}
	}
	c, err := ForContainer(context.Background(), s, nominal, goal, seeded(1))
	if err != nil {
		t.Fatal(err)
	}
	text := describe(&c)
	if nodeCPUs > 0 {
		n, err := ForNode(context.Background(), s, nominal, nodeCPUs, limitCPUs, goal, seeded(2))
		if err != nil {
			t.Fatal(err)
		}
		text += describeNode(&n)
	}
	return text
}

func describe(c *Container) string {
	var b strings.Builder
	r, throttled := &c.Recorded, math.NaN()
	if r.ThrottleRatio != nil {
		throttled = *r.ThrottleRatio
	}
	fmt.Fprintf(&b, "recorded %v: %d periods of %v, %.3g CPUs on average, p99 %.3g, peak %.3g; limit %.3g, burst %.3g%%, throttled %.3g, moved %.2g, open %.2g, averaged %.2g\n",
		r.Time, r.Periods, r.Period, r.AverageCPUs, r.P99CPUs, r.PeakCPUs, r.LimitCPUs, r.BurstPercent, throttled, r.Moved, r.OpenShare, r.Averaged)
	for _, w := range c.Warnings {
		fmt.Fprintf(&b, "warning: %s\n", w)
	}
	finding := func(name string, f Finding, format string, args ...any) {
		fmt.Fprintf(&b, "\n%s: ", name)
		if f.Enough {
			fmt.Fprintf(&b, format, args...)
		} else {
			b.WriteString("unknown")
		}
		fmt.Fprintf(&b, "\n  %s\n", f.Reason)
	}
	for _, l := range []*Limit{&c.LimitWithoutBurst, &c.LimitWithBurst} {
		finding(fmt.Sprintf("limit, burst %v%%", l.BurstPercent), l.Finding, "%v CPUs (%v to %v), throttled %.2g", l.LimitCPUs, l.LowCPUs, l.HighCPUs, l.ThrottleRatio)
	}
	finding("burst", c.Burst.Finding, "%v%% (%v to %v) at %v CPUs, %v", c.Burst.BurstPercent, c.Burst.LowPercent, c.Burst.HighPercent, c.Burst.AtLimitCPUs, c.Burst.ReachesGoal)
	finding("period", c.Period.Finding, "%v, stalls %v, now %v", c.Period.Period, c.Period.LongestStall, c.Period.PresentStall)
	finding("binding", c.Binding.Finding, "%v to %d CPUs, waiting %.2g, %v on average, %v at most", c.Binding.Pays, c.Binding.CPUs,
		c.Binding.WaitingShare, c.Binding.AverageWait.Round(time.Microsecond), c.Binding.LongestWait)
	finding("parallelism", c.Parallelism.Finding, "%d", c.Parallelism.Threads)
	finding("scale out", c.ScaleOut.Finding, "%v: %.3g (%.3g to %.3g)", c.ScaleOut.Needed, c.ScaleOut.Utilisation, c.ScaleOut.LowUtilisation, c.ScaleOut.HighUtilisation)
	finding("curve", c.Curve.Finding, "%s", curve(&c.Curve))
	return b.String()
}

// curve prints every tenth point: in recorded order, and in random order with its bounds.
func curve(c *Curve) string {
	var points []string
	for i, p := range c.Points {
		if i%10 != 0 {
			continue
		}
		point := fmt.Sprintf("%v%%: %.3g", p.BurstPercent, p.ThrottleRatio)
		if q := p.Independent; q != nil {
			point += fmt.Sprintf(" [%.2g, %.2g]", q.Lower, q.Upper)
		}
		points = append(points, point)
	}
	return strings.Join(append(points, c.IndependentMissing), " ")
}

func describeNode(n *Node) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nnode: %v\n  %s\n", n.Enough, n.Reason)
	if !n.Enough {
		return b.String()
	}
	for _, d := range []Density{n.ByLimits, n.Fits} {
		fmt.Fprintf(&b, "  %d containers: load %.3g, P(WCET = 1) %.3g, E[WCET] %.3g, throttled %.2g\n",
			d.Containers, d.Load, d.ProbabilityWCET1.Value, d.ExpectedWCET.Value, d.ThrottleRatio.Value)
	}
	fmt.Fprintf(&b, "  %d to %d fit; less density %v; utilisation %.3g, safe %.3g; halves %.3g %.3g\n",
		n.Low, n.High, n.LessDensity, n.Utilisation, n.SafeUtilisation, n.Halves[0].Value, n.Halves[1].Value)
	for _, w := range n.Warnings {
		fmt.Fprintf(&b, "  warning: %s\n", w)
	}
	return b.String()
}

// script describes a recording.
type script struct {
	length, interval time.Duration
	limits           []limitChange
	loads            []load
	lateEvery        int
}

type limitChange struct {
	after  time.Duration
	limits bandwidth.Limits
}

type load struct {
	threads     int
	work, every time.Duration
	random      bool
}

func parse(t *testing.T, text string) script {
	s := script{limits: []limitChange{{0, bandwidth.Limits{Quota: bandwidth.Unlimited, Period: trace.DefaultPeriod}}}}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		var change limitChange
		if words[0] == "after" {
			change.after, words = duration(t, words[1]), words[2:]
		}
		switch words[0] {
		case "for":
			s.length = duration(t, words[1])
		case "every":
			s.interval = duration(t, words[1])
		case "limit":
			quota := time.Duration(number(t, words[1]) * float64(trace.DefaultPeriod))
			burst := number(t, strings.TrimSuffix(words[2], "%")) / 100
			change.limits = bandwidth.Limits{Quota: quota, Period: trace.DefaultPeriod, Burst: time.Duration(burst * float64(quota))}
			if change.after == 0 {
				s.limits = nil
			}
			s.limits = append(s.limits, change)
		case "threads":
			s.loads = append(s.loads, load{int(number(t, words[1])), duration(t, words[3]), duration(t, words[5]), len(words) > 6})
		case "late":
			s.lateEvery = int(number(t, words[1]))
		default:
			t.Fatalf("unknown word %q", words[0])
		}
	}
	return s
}

func record(t *testing.T, text string) (*trace.Series, time.Duration) {
	s := parse(t, text)
	r := rand.New(rand.NewPCG(9, 9))
	g, err := bandwidthtest.NewServer(8, 37*time.Millisecond, s.limits[0].limits) // the phase is relative to the sampler's
	if err != nil {
		t.Fatal(err)
	}
	next := make([]time.Duration, len(s.loads))
	series := &trace.Series{Group: "/pod", Name: "shop/pod/main"}
	change := 1
	for at := time.Duration(0); at < s.length; {
		interval := s.interval
		if n := len(series.Samples); s.lateEvery > 0 && n%s.lateEvery == s.lateEvery-1 {
			interval *= 10
		}
		before := g.Stats()
		at += interval
		for {
			first := -1
			for i := range next {
				if next[i] < at && (first < 0 || next[i] < next[first]) {
					first = i
				}
			}
			if first < 0 {
				break
			}
			g.Advance(next[first])
			s.loads[first].submit(g)
			next[first] += s.loads[first].pause(r)
		}
		g.Advance(at)
		now := g.Stats().Sample(before, at, interval, g.Limits())
		now.Late = interval > s.interval
		series.Samples = append(series.Samples, now)
		if change < len(s.limits) && at >= s.limits[change].after {
			if err := g.Write(s.limits[change].limits); err != nil {
				t.Fatal(err)
			}
			change++
		}
	}
	return series, s.interval
}

func (l load) submit(g *bandwidthtest.Server) {
	for range l.threads {
		if l.work > 0 {
			g.Submit(l.work)
		}
	}
}

func (l load) pause(r *rand.Rand) time.Duration {
	if !l.random {
		return l.every
	}
	return 1 + time.Duration(r.ExpFloat64()*float64(l.every))
}

func duration(t *testing.T, text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func number(t *testing.T, text string) float64 {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return x
}
