package trace_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"pinfold.dev/pinfold/core/trace"
)

func BenchmarkTimescales(b *testing.B) {
	for _, n := range []int{600, 60_000} {
		b.Run(fmt.Sprintf("samples=%d", n), func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 2))
			s := &trace.Series{}
			for i := range n {
				s.Samples = append(s.Samples, trace.Sample{
					At: time.Duration(i+1) * time.Millisecond, Interval: time.Millisecond,
					Usage: time.Duration(r.ExpFloat64() * 1e6),
				})
			}
			for b.Loop() {
				trace.Timescales(s, time.Millisecond)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/sample")
		})
	}
}
