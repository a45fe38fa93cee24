package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/tracefile"
)

// manyGroups writes the recording of a node whose containers live for three samples each, and
// returns its name.
func manyGroups(tb testing.TB, groups int) string {
	tb.Helper()
	const interval = 100 * time.Millisecond
	r := rand.New(rand.NewPCG(1, 0))
	rec := &trace.Recording{Start: time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC), Interval: interval}
	for i := range groups {
		s := trace.Series{Group: fmt.Sprintf("/kubepods/burstable/pod%08x-5b8d-4f0e-9a44-0f3d5d2f1c11/app", i), Name: fmt.Sprintf("shop/job-%05d/app", i)}
		for n := range 3 {
			s.Samples = append(s.Samples, trace.Sample{
				At: interval * time.Duration(n+1), Interval: interval, Usage: 1 + time.Duration(r.Int64N(int64(50*time.Millisecond))), Periods: 1,
				Limits: bandwidth.Limits{Quota: 100 * time.Millisecond, Period: 100 * time.Millisecond},
			})
		}
		rec.Series = append(rec.Series, s)
	}
	file := filepath.Join(tb.TempDir(), "many.parquet")
	must.Get(tracefile.Write(tracefile.Output{Name: file}, tracefile.Header{Start: rec.Start, Interval: rec.Interval}, tracefile.Rows(rec)))(tb)
	return file
}

// manyGroupsQuestions are commands for all groups of a recording. The first one fails, with an error
// that says what to do.
func manyGroupsQuestions() []struct{ args, refusal string } {
	return []struct{ args, refusal string }{
		{"simulate --cgroups 7", "choose "},
		{"advise", ""},
	}
}

func askOf(tb testing.TB, file, args, refusal string) {
	tb.Helper()
	err := frame.Run(tb.Context(), newRoot("pinfold"), append(strings.Fields(args), file), strings.NewReader(""), io.Discard, io.Discard)
	if refusal == "" && err != nil || refusal != "" && (err == nil || !strings.Contains(err.Error(), refusal) || !strings.Contains(err.Error(), "--group")) {
		tb.Fatalf("%s: error %v, want %q", args, err, refusal)
	}
}

// TestManyGroupsCost checks that the cost of a command per group does not grow much with the number
// of groups. It counts allocations, which do not depend on the machine.
func TestManyGroupsCost(t *testing.T) {
	const few, times = 250, 4
	small, large := manyGroups(t, few), manyGroups(t, times*few)
	for _, q := range manyGroupsQuestions() {
		t.Run(strings.Fields(q.args)[0], func(t *testing.T) {
			cost := func(file string) float64 {
				return testing.AllocsPerRun(1, func() { askOf(t, file, q.args, q.refusal) })
			}
			if a, b := cost(small), cost(large); b > 1.5*times*a {
				t.Errorf("%v allocations for %d groups, and %v for %d: want no more a group", a, few, b, times*few)
			}
		})
	}
}
