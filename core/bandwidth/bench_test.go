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
	for name, dst := range map[string][]Period{"periods": make([]Period, len(demand)), "stats": nil} {
		b.Run(name, func(b *testing.B) {
			c, err := NewController(limits)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				c.Replay(dst, demand)
			}
			b.ReportMetric(float64(len(demand))*float64(b.N)/b.Elapsed().Seconds(), "periods/s")
		})
	}
}
