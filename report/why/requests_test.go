package why

import (
	"strings"
	"testing"
	"time"

	"pinfold.dev/pinfold/core/blame"
)

func TestReadRequests(t *testing.T) {
	got, err := ReadRequests(strings.NewReader("server,start,end\nweb,2026-11-22T12:00:00.5Z,2026-11-22T12:00:00.75Z\nweb,2026-11-22T13:00:01+01:00,2026-11-22T12:00:01Z\n"))
	if err != nil || len(got) != 2 || got[0].End.Sub(got[0].Start) != 250*time.Millisecond || got[1].End != got[1].Start.UTC() {
		t.Errorf("%v, %v", got, err)
	}
	for text, want := range map[string]string{
		"":                   "the log is empty: want CSV with the columns start and end",
		"begin,end\n":        `the header "begin,end" has no columns "start" and "end"`,
		"start,end\n1,2\n":   `line 2: "1" is not a time: want one such as 2026-`,
		"start,end\n\"1\n":   "line 2 is not CSV: a quotation mark",
		"start,end\n1,2,3\n": "line 2 has not as many fields as the first line",
		"start,end\n2026-11-22T12:00:01Z,2026-11-22T12:00:00Z\n": "line 2: the request ends before it starts",
	} {
		if _, err := ReadRequests(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

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
	if got := r.Slowest[0].Split; got != (blame.Split{Throttled: 80 * time.Millisecond}) {
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
