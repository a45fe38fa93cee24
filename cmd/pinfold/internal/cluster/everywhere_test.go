package cluster

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/report/top"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/tracefile"
)

// journal returns a second of a container with a limit of 0.4 CPUs that was throttled in its first
// periods.
func journal(t *testing.T, name string, throttled int) *bytes.Buffer {
	t.Helper()
	const ms = time.Millisecond
	var out bytes.Buffer
	r := must.Get(tracefile.RecordJournal(&out, tracefile.Header{Start: time.Unix(1, 0), Interval: 100 * ms}))(t)
	for i := range 10 {
		s := trace.Sample{At: time.Duration(i+1) * 100 * ms, Interval: 100 * ms, Usage: 20 * ms, Waited: 10 * ms, Periods: 1,
			Limits: bandwidth.Limits{Quota: 40 * ms, Period: 100 * ms}}
		if i < throttled {
			s.Throttled, s.ThrottledTime = 1, ms
		}
		must.Do(t, r.Append(&tracefile.Row{Group: "/kubepods/pod1/c", Name: name, Sample: s}))
	}
	must.Get(r.Finish())(t)
	return &out
}

// TestEverywhere draws the containers of three nodes, whose groups have the same path.
func TestEverywhere(t *testing.T) {
	e := newEverywhere("", top.New())
	must.Do(t, e.add("n1", journal(t, "shop/web-1/app", 1)))
	must.Do(t, e.add("n2", journal(t, "shop/web-2/app", 5)))
	must.Do(t, e.add("n3", journal(t, "", 0)))
	var out strings.Builder
	e.draw(&out)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	for i, want := range []string{"CONTAINER", "shop/web-2/app", "shop/web-1/app", "n3:/kubepods/pod1/c",
		"kubectl pinfold why web-2 -n shop   # throttled in 50% of its periods at 50% of its limit"} {
		if i >= len(lines) || !strings.HasPrefix(lines[i], want) || i > 0 && i < 4 && !strings.HasSuffix(lines[i], " 10%") {
			t.Fatalf("line %d does not begin with %s, and with 10%% as WAIT:\n%s", i, want, out.String())
		}
	}

	e = newEverywhere("shop", top.New())
	must.Do(t, e.add("n1", journal(t, "shops/web/app", 0)))
	must.Do(t, e.add("n1", journal(t, "", 0)))
	if len(e.names) > 0 {
		t.Errorf("groups of other namespaces: %v", e.names)
	}
	must.Do(t, e.add("n1", journal(t, "shop/web/app", 0)))
	e.ended = true
	if err := e.add("n2", journal(t, "shop/late/app", 0)); err == nil || len(e.names) != 1 {
		t.Errorf("error %v, groups %v: want an error for a node that is late, and one group", err, e.names)
	}
}
