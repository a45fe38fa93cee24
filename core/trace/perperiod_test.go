package trace_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pinfold.dev/pinfold/core/trace"
)

// TestPerPeriod collects samples of 50 ms into periods of 100 ms: a late sample counts twice, no
// period spans the gap, and the sample of ten hours is omitted.
func TestPerPeriod(t *testing.T) {
	const ms = time.Millisecond
	s := &trace.Series{}
	at := time.Duration(0)
	add := func(after, interval, usage time.Duration) {
		at += after + interval
		s.Samples = append(s.Samples, trace.Sample{At: at, Interval: interval, Usage: usage})
	}
	add(0, 50*ms, 50*ms)
	add(0, 50*ms, 10*ms)
	add(0, 200*ms, 100*ms)
	add(0, 50*ms, 7*ms)
	add(30*ms, 50*ms, 20*ms)
	add(0, 50*ms, 20*ms)
	add(0, 50*ms, 9*ms)
	add(0, 10*time.Hour, 9*ms)
	add(0, 100*ms, 30*ms)
	if diff := cmp.Diff([]float64{0.6, 0.5, 0.5, 0.4, 0.3}, s.PerPeriod(50*ms, 100*ms)); diff != "" {
		t.Error(diff)
	}
	if got := (&trace.Series{}).PerPeriod(50*ms, 100*ms); len(got) != 0 {
		t.Errorf("an empty series has the periods %v", got)
	}
}
