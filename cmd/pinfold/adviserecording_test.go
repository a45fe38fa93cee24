package main

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/bandwidth/bandwidthtest"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/tracefile"
)

// server is a simulated container of an example recording.
type server struct {
	group, name string
	limits      bandwidth.Limits
	cpus        int           // of its machine
	every       time.Duration // a request comes, on average
	work        time.Duration // it takes, on average
	crowdEvery  time.Duration // a crowd of requests comes, on average
	crowd       int
}

func shop() server {
	return server{
		group: "/kubepods/pod6f1d2c3a/3e1f", name: "shop/web-0/app",
		limits: bandwidth.Limits{Quota: 100 * time.Millisecond, Period: 100 * time.Millisecond}, cpus: 4,
		every: 40 * time.Millisecond, work: 5 * time.Millisecond, crowdEvery: 2 * time.Second, crowd: 14,
	}
}

// TestRecordings makes the recordings of testdata/recordings for the manual and the scripts, from
// random requests and the model of the kernel's bandwidth controller.
func TestRecordings(t *testing.T) {
	fine := shop()
	fine.group, fine.name = "/fine", ""
	fine.limits = bandwidth.Limits{Quota: 40 * time.Millisecond, Period: 20 * time.Millisecond}
	for file, r := range map[string]struct {
		server
		interval time.Duration
		samples  int
	}{
		"shop.csv": {shop(), 100 * time.Millisecond, 1200},
		"fine.csv": {fine, 10 * time.Millisecond, 2100},
	} {
		start := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
		rec := &trace.Recording{Start: start, Interval: r.interval, Series: []trace.Series{r.record(t, r.interval, r.samples)}}
		var b bytes.Buffer
		must.Get(tracefile.WriteCSV(&b, tracefile.Header{Start: start, Interval: r.interval}, tracefile.Rows(rec)))(t)
		golden.Compare(t, "testdata/recordings/"+file, b.String())
	}
}

// record returns what a sampler sees.
func (s server) record(t *testing.T, interval time.Duration, samples int) trace.Series {
	t.Helper()
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], 1)
	r := rand.New(rand.NewChaCha8(key))
	g := must.Get(bandwidthtest.NewGroup(bandwidthtest.Fluid(s.cpus), s.limits))(t)
	out := trace.Series{Group: s.group, Name: s.name}
	drawn := func(mean time.Duration) time.Duration { return 1 + time.Duration(r.ExpFloat64()*float64(mean)) }
	single, crowd := drawn(s.every), drawn(s.crowdEvery)
	before := bandwidthtest.Stats{}
	for i := range samples {
		end := interval * time.Duration(i+1)
		for min(single, crowd) < end {
			requests := 1
			if g.Advance(min(single, crowd)); crowd < single {
				requests = s.crowd
				crowd += drawn(s.crowdEvery)
			} else {
				single += drawn(s.every)
			}
			for range requests {
				g.Submit(bandwidthtest.Request{Work: drawn(s.work), CPU: bandwidthtest.AnyCPU})
			}
		}
		g.Advance(end)
		out.Samples = append(out.Samples, g.Stats().Sample(before, end, interval, s.limits))
		before = g.Stats()
	}
	return out
}
