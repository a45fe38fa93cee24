package why

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"pinfold.dev/pinfold/core/blame"
)

// TestSlowest: 200 requests of 1 ms each, but for two, of which one began before the trace.
func TestSlowest(t *testing.T) {
	timeline := &blame.Timeline{Group: web, Watched: map[blame.Group]blame.Group{web: web}}
	const boot = 100 * time.Second // on the clock of the trace
	epoch := time.Unix(0, 0).Add(boot)
	timeline.Add(blame.Span{Thread: blame.Thread{ID: 1, Process: 1, Group: web}, State: blame.Throttled, From: 3 * time.Second, To: 4 * time.Second})
	var log []Request
	for i := range 200 {
		start, took := epoch.Add(time.Duration(i)*50*time.Millisecond), time.Millisecond
		if i == 10 || i == 61 { // 500 ms and 3.05 s after the begin
			took = 80 * time.Millisecond
		}
		log = append(log, Request{start, start.Add(took)})
	}
	r := Slowest(log, timeline, time.Second, 10*time.Second, -boot)
	if r.Logged != 200 || r.Traced != 180 || len(r.Slowest) != 2 || r.Slowest[0].From != 3050*time.Millisecond || r.P99 != time.Millisecond {
		t.Fatalf("%+v", r)
	}
	if got := r.Slowest[0].Parts; !reflect.DeepEqual(got, blame.Parts{Throttled: 80 * time.Millisecond}) {
		t.Errorf("%+v", got)
	}
	var out strings.Builder
	r.text(&out, time.Second)
	want := `
  slowest 1% of the 180 requests that were traced (2): 1.0 ms and more
  40.5 ms on average:           throttled 40.0 ms, not on CPUs 0.5 ms
  80.0 ms at 2.050 s:           throttled 80.0 ms
  1.0 ms at 0.000 s:            not on CPUs 1.0 ms
`
	if out.String() != want {
		t.Errorf("%s", out.String())
	}
	if none := Slowest(log, timeline, 20*time.Second, 30*time.Second, -boot); none.Traced != 0 || len(none.Slowest) != 0 {
		t.Errorf("%+v", none)
	}
}
