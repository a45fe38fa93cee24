package needed

import (
	"testing"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/trace"
)

// BenchmarkMeter adds samples of a container that wants 0.01 to 2 CPUs, with a limit of one, and of one that
// is throttled half of the time. The agent does that ten times a second for each container with a limit.
func BenchmarkMeter(b *testing.B) {
	for name, throttled := range map[string]bool{"free": false, "throttled": true} {
		b.Run(name, func(b *testing.B) {
			var m Meter
			var wanted, limits Histogram
			s := trace.Sample{Interval: period, Limits: bandwidth.Limits{Quota: period, Period: period}}
			n := 0
			for b.Loop() {
				n++
				s.At += period
				s.Usage, s.Throttled, s.ThrottledTime = period*time.Duration(1+n*37%200)/100, 0, 0
				if throttled && n%20 < 10 {
					s.Usage, s.Throttled, s.ThrottledTime = period, 1, period/2
				}
				m.Add(&s, func(p Period) {
					wanted.Add(p.CPUs)
					limits.Add(p.Limit)
				})
			}
		})
	}
}
