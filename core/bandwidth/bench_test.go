package bandwidth

import (
	"math/rand/v2"
	"testing"
	"time"
)

func randomDemand(n int, mean time.Duration) []time.Duration {
	r := rand.New(rand.NewPCG(1, 2))
	demand := make([]time.Duration, n)
	for i := range demand {
		demand[i] = time.Duration(r.ExpFloat64() * float64(mean))
	}
	return demand
}

// BenchmarkReplay is one operation per call of Replay; the figure of interest is periods/s.
func BenchmarkReplay(b *testing.B) {
	demand := randomDemand(4096, 70*time.Millisecond)
	limits := Limits{Quota: 100 * time.Millisecond, Period: 100 * time.Millisecond, Burst: 50 * time.Millisecond}
	for _, v := range []struct {
		name string
		dst  []Period
	}{{"periods", make([]Period, len(demand))}, {"stats", nil}} {
		b.Run(v.name, func(b *testing.B) {
			c, err := NewController(limits)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				c.Replay(v.dst, demand)
			}
			b.ReportMetric(float64(len(demand))*float64(b.N)/b.Elapsed().Seconds(), "periods/s")
		})
	}
}

// BenchmarkGroup is one operation per period of 100 ms, in which four requests arrive,
// at a load of a third of the quota.
func BenchmarkGroup(b *testing.B) {
	limits := Limits{Quota: 100 * time.Millisecond, Period: 100 * time.Millisecond, Burst: 50 * time.Millisecond}
	for _, c := range []struct {
		name    string
		machine Machine
	}{{"kernel", Kernel(4)}, {"fluid", Fluid(4)}} {
		b.Run(c.name, func(b *testing.B) {
			works := randomDemand(4096, 8*time.Millisecond)
			g, err := NewGroup(c.machine, limits)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				for range 4 {
					if _, err := g.Submit(Request{Work: works[n%len(works)] + 1, CPU: AnyCPU}); err != nil {
						b.Fatal(err)
					}
					n++
					g.Advance(g.Now() + 25*time.Millisecond)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "periods/s")
		})
	}
}
