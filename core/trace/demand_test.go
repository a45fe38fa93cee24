package trace_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/trace"
)

const ms = time.Millisecond

// throttledSeries makes samples of pairs of usage and throttled time, of an interval, in one segment.
func throttledSeries(interval time.Duration, l bandwidth.Limits, pairs ...[2]time.Duration) *trace.Series {
	s := &trace.Series{}
	for i, p := range pairs {
		sample := trace.Sample{At: time.Duration(i+1) * interval, Interval: interval, Usage: p[0], ThrottledTime: p[1], Limits: l}
		if p[1] > 0 {
			sample.Throttled, sample.Periods = 1, 1
		}
		s.Samples = append(s.Samples, sample)
	}
	return s
}

var near = cmpopts.EquateApprox(0, 1e-9)

// TestDemandOfFourThreads recovers 4 threads of 200 ms at a limit of 2 CPUs: counted in the
// sample in which they waited, and in the next.
func TestDemandOfFourThreads(t *testing.T) {
	two := bandwidth.Limits{Quota: 200 * ms, Period: 100 * ms}
	idle := [2]time.Duration{}
	for name, c := range map[string]struct {
		pairs [][2]time.Duration
		want  []float64
	}{
		"in phase":      {[][2]time.Duration{idle, {200 * ms, 200 * ms}, {200 * ms, 200 * ms}, {200 * ms, 200 * ms}, {200 * ms, 0}, idle}, []float64{0, 4, 4, 0, 0, 0}},
		"counted later": {[][2]time.Duration{idle, {200 * ms, 0}, {200 * ms, 200 * ms}, {200 * ms, 200 * ms}, {200 * ms, 200 * ms}, idle}, []float64{0, 4, 4, 0, 0, 0}},
	} {
		d, err := throttledSeries(100*ms, two, c.pairs...).Demand(100*ms, 100*ms)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, d.CPUs, near); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if d.Open != 0 || d.Moved != .5 {
			t.Errorf("%s: %+v, want half of it moved and no open run", name, d)
		}
	}
}

func TestDemandErrors(t *testing.T) {
	s := throttledSeries(100*ms, bandwidth.Limits{Quota: 200 * ms, Period: 100 * ms}, [2]time.Duration{ms, 0})
	if _, err := s.Demand(100*ms, 50*ms); !errors.Is(err, trace.ErrTooCoarse) {
		t.Errorf("samples of two periods: %v", err)
	}
	if _, err := s.Demand(100*ms, time.Second); !errors.Is(err, trace.ErrTooShort) {
		t.Errorf("a tenth of a period: %v", err)
	}
	if _, err := (&trace.Series{}).Demand(ms, ms); !errors.Is(err, trace.ErrTooShort) {
		t.Errorf("nothing: %v", err)
	}
}
