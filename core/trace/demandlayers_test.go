package trace

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/test/must"
)

// TestRecoveryProperty: demand is never negative and never later than the usage that serves it, the
// demand of a segment is at most its usage plus waiting time, and the sum over each sequence is
// preserved to the nanosecond.
func TestRecoveryProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		samples := drawThrottled(t)
		wanted := slices.Clone(samples)
		r := newRecovery([][]Sample{wanted}, 100)
		r.move()
		var used, sum time.Duration
		for i := range samples {
			used += samples[i].Usage
			sum += wanted[i].Usage
			if wanted[i].Usage < 0 || sum < used {
				t.Fatalf("after sample %d the demand is %v and the usage %v\n%+v\n%+v", i, sum, used, samples, wanted)
			}
		}
		if sum != used {
			t.Errorf("the demand is %v in total and the usage %v", sum, used)
		}
		at := 0
		for _, s := range r.segments[0] {
			if s.begin != at || s.end <= s.begin {
				t.Fatalf("segments %+v", r.segments[0])
			}
			wants := time.Duration(0)
			for _, sample := range wanted[s.begin:s.end] {
				wants += sample.Usage
			}
			if wants > s.usage+s.waited+time.Duration(len(samples)) {
				t.Fatalf("the demand is %v in %+v\n%+v\n%+v", wants, s, samples, wanted)
			}
			at = s.end
		}
		if at != len(samples) {
			t.Errorf("segments end at sample %d of %d", at, len(samples))
		}
	})
}

// drawThrottled draws samples of any length without gaps, also impossible ones.
func drawThrottled(t *rapid.T) []Sample {
	lengths := rapid.SliceOfN(rapid.SampledFrom([]time.Duration{100, 100, 100, 99, 10, 25, 101, 149, 151, 370}), 1, 40).Draw(t, "lengths")
	at := time.Duration(0)
	var samples []Sample
	for _, length := range lengths {
		at += length
		s := Sample{At: at, Interval: length, Limits: bandwidth.Limits{Quota: 150, Period: 100}}
		s.Usage = length * time.Duration(rapid.IntRange(0, 6).Draw(t, "usage")) / 2
		if rapid.Bool().Draw(t, "throttled") {
			s.ThrottledTime = time.Duration(rapid.IntRange(0, 900).Draw(t, "time"))
		}
		samples = append(samples, s)
	}
	return samples
}

// TestRecoveryOfNonsense: Demand handles everything that Validate accepts.
func TestRecoveryOfNonsense(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		times := rapid.SampledFrom([]time.Duration{0, 1, time.Millisecond, MaxTime})
		samples := make([]Sample, rapid.IntRange(1, 12).Draw(t, "samples"))
		for i := range samples {
			samples[i] = Sample{
				At: times.Draw(t, "at"), Interval: max(1, times.Draw(t, "interval")), Usage: times.Draw(t, "usage"), ThrottledTime: times.Draw(t, "throttled"),
				Limits: bandwidth.Limits{Quota: max(1, times.Draw(t, "quota")), Period: max(1, times.Draw(t, "period"))},
			}
			must.Do(t, samples[i].Validate())
		}
		s := Series{Samples: samples}
		if d, err := s.Demand(1, 100*time.Millisecond); err == nil && len(d.CPUs) == 0 {
			t.Error("neither demand nor an error")
		}
	})
}
