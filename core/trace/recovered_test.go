package trace_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
	"strings"
	"testing"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/bandwidth/bandwidthtest"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/must"
)

// TestRecoveredDemand runs the same requests with and without a limit in the model of package
// bandwidthtest and samples both at the same random phase. It computes the limit that throttles 2%
// of the periods from the unlimited usage, the limited usage and the recovered demand, and compares
// them. The table is in testdata/recovered.txt; the package comment quotes its figures.
func TestRecoveredDemand(t *testing.T) {
	var table strings.Builder
	fmt.Fprintf(&table, "%-8s%-24s%7s%11s%8s%11s\n", "samples", "requests", "quota", "throttled", "usage", "recovered")
	var used, recovered [2]deviations // lightly and heavily throttled
	for _, interval := range []time.Duration{10 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond} {
		for _, l := range loads {
			for _, times := range []float64{1.3, 2, 3} {
				e := experiment{interval, l, times}.run(t)
				fmt.Fprintf(&table, "%-8v%-24s%7v%11.2f%+7.0f%%%+10.0f%%\n", interval, l.name, times, e.throttled,
					100*e.used.mean(), 100*e.recovered.mean())
				heavy := 0
				if times < 2 {
					heavy = 1
				}
				used[heavy].add(e.used)
				recovered[heavy].add(e.recovered)
			}
		}
	}
	better := []float64{.5, 1} // the largest ratio of the errors
	for i, name := range []string{"quota of 2 and 3 times the average", "quota of 1.3 times the average"} {
		fmt.Fprintf(&table, "\n%s: the limit is off by %.0f%% (usage) and %.0f%% (recovered), on average %+.0f%% and %+.0f%%\n",
			name, 100*used[i].size(), 100*recovered[i].size(), 100*used[i].mean(), 100*recovered[i].mean())
		if !(recovered[i].size() < better[i]*used[i].size()) {
			t.Errorf("%s: recovered demand is off by %.2g, usage by %.2g", name, recovered[i].size(), used[i].size())
		}
	}
	golden.Compare(t, "testdata/recovered.txt", table.String())
}

// deviations are relative errors of limits.
type deviations []float64

func (e *deviations) add(more deviations) { *e = append(*e, more...) }

func (e deviations) mean() float64 {
	sum := 0.0
	for _, x := range e {
		sum += x
	}
	return sum / float64(len(e))
}

func (e deviations) size() float64 {
	sum := 0.0
	for _, x := range e {
		sum += math.Abs(x)
	}
	return sum / float64(len(e))
}

// load is batches of requests that arrive at random times.
type load struct {
	name      string
	batch     int // requests in a batch; if varied, uniform from 1 to 2*batch-1
	varied    bool
	work      time.Duration // mean of an exponential distribution
	perSecond float64
}

var loads = []load{
	{"4 x 200 ms, 0.4/s", 4, false, 200 * time.Millisecond, .4},
	{"2 x 300 ms, 0.5/s", 2, false, 300 * time.Millisecond, .5},
	{"12 x 10 ms, 2/s", 12, false, 10 * time.Millisecond, 2},
	{"1 to 7 x 30 ms, 5/s", 4, true, 30 * time.Millisecond, 5},
	{"20 ms, 30/s", 1, false, 20 * time.Millisecond, 30},
	{"5 ms, 100/s", 1, false, 5 * time.Millisecond, 100},
}

type arrival struct {
	at, work time.Duration
}

func (l load) draw(r *rand.Rand, until time.Duration) []arrival {
	var all []arrival
	wait := func() time.Duration { return time.Duration(r.ExpFloat64() / l.perSecond * float64(time.Second)) }
	for at := wait(); at < until; at += wait() {
		n := l.batch
		if l.varied {
			n = 1 + r.IntN(2*l.batch-1)
		}
		for range n {
			all = append(all, arrival{at, 1 + time.Duration(r.ExpFloat64()*float64(l.work))})
		}
	}
	return all
}

const cpus = 8

type experiment struct {
	interval time.Duration
	load     load
	times    float64 // the quota, as a multiple of the average usage
}

type outcome struct {
	throttled       float64 // share of the periods
	used, recovered deviations
}

func (e experiment) run(t *testing.T) outcome {
	const (
		draws  = 3
		until  = 80 * time.Second
		period = trace.DefaultPeriod
	)
	var o outcome
	r := rand.New(rand.NewPCG(uint64(e.interval), uint64(e.load.work)))
	for range draws {
		kernelPhase := 1 + time.Duration(r.Int64N(int64(period)))
		phase := 1 + time.Duration(r.Int64N(int64(period)))
		arrivals := e.load.draw(r, until)
		var work time.Duration
		for _, a := range arrivals {
			work += a.work
		}
		quota := time.Duration(float64(work) / float64(until/period) * e.times).Truncate(time.Microsecond)
		limited := record(t, kernelPhase, bandwidth.Limits{Quota: quota, Period: period}, arrivals, e.interval, phase, until)
		free := record(t, kernelPhase, bandwidth.Limits{Quota: bandwidth.Unlimited, Period: period}, arrivals, e.interval, phase, until)
		d := must.Get(limited.Demand(e.interval, period))(t)
		right := limitFor(free.PerPeriod(e.interval, period))
		o.used = append(o.used, limitFor(limited.PerPeriod(e.interval, period))/right-1)
		o.recovered = append(o.recovered, limitFor(d.CPUs)/right-1)
		sum := trace.Summarise(limited, e.interval)
		o.throttled += sum.ThrottledOfWall() / draws
	}
	return o
}

// record samples a group that serves the requests.
func record(t *testing.T, kernelPhase time.Duration, l bandwidth.Limits, arrivals []arrival, interval, phase, until time.Duration) *trace.Series {
	g := must.Get(bandwidthtest.NewServer(cpus, kernelPhase, l))(t)
	s := &trace.Series{}
	var before bandwidthtest.Stats
	for at := phase; at <= until; at += interval {
		for len(arrivals) > 0 && arrivals[0].at <= at {
			g.Advance(arrivals[0].at)
			g.Submit(arrivals[0].work)
			arrivals = arrivals[1:]
		}
		g.Advance(at)
		now := g.Stats()
		if at > phase {
			s.Samples = append(s.Samples, now.Sample(before, at, interval, l))
		}
		before = now
	}
	return s
}

// limitFor returns the smallest limit, in hundredths of a CPU, that throttles at most 2% of
// the periods.
func limitFor(demand []float64) float64 {
	return float64(sort.Search(100_000, func(hundredths int) bool {
		backlog, throttled := 0.0, 0
		for _, d := range demand {
			if backlog = max(backlog+d-float64(hundredths)/100, 0); backlog > 0 {
				throttled++
			}
		}
		return throttled*50 <= len(demand)
	})) / 100
}
