package throttling

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/lab/load"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/test/golden"
)

// rows returns example rows whose shares are easy to calculate.
func rows() []Row {
	const ms = time.Millisecond
	quick := load.Result{Sent: 4, Latencies: []time.Duration{ms, 2 * ms, 3 * ms, 10 * ms}}
	failing := load.Result{Sent: 5, Latencies: quick.Latencies[:1], Failures: map[string]int{"no answer within 1s": 3, "answered with 500": 1}, Lateness: 17 * ms}
	limit := bandwidth.Limits{Quota: 10 * ms, Period: 100 * ms}
	return []Row{
		{Name: "limit", Limit: limit, Load: quick, Wall: 10 * time.Second,
			Counted: cgroup.Stat{Periods: 60, Throttled: 20, Usage: 320 * ms}},
		{Name: "limit, old kernel", Limit: limit, Load: failing, Wall: 10 * time.Second,
			Counted: cgroup.Stat{Periods: 60, NoBursts: true, Usage: time.Second}},
		{Name: "no limit", Limit: bandwidth.Limits{Quota: bandwidth.Unlimited, Period: 100 * ms}, Load: quick, Wall: 10 * time.Second,
			Counted: cgroup.Stat{Usage: time.Second}},
		{Name: "idle", Limit: limit, Wall: 10 * time.Second},
		{Name: "only a URL", Load: quick, Wall: 10 * time.Second},
	}
}

func TestFormats(t *testing.T) {
	for file, write := range map[string]func(io.Writer, []Row) error{"rows.txt": WriteTable, "rows.json": WriteJSON} {
		var got strings.Builder
		if err := write(&got, rows()); err != nil {
			t.Fatal(err)
		}
		golden.Compare(t, "testdata/"+file, got.String())
	}
}

func TestDifference(t *testing.T) {
	before := cgroup.Stat{Periods: 3, Throttled: 1, ThrottledTime: 5, Bursts: 1, BurstTime: 2, Usage: 100}
	after := cgroup.Stat{Periods: 10, Throttled: 2, ThrottledTime: 9, Bursts: 4, BurstTime: 8, Usage: 150}
	got, err := difference(before, after)
	want := cgroup.Stat{Periods: 7, Throttled: 1, ThrottledTime: 4, Bursts: 3, BurstTime: 6, Usage: 50}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if _, err := difference(after, before); err == nil || !strings.Contains(err.Error(), "created again") {
		t.Errorf("decreasing counters: %v", err)
	}
}
