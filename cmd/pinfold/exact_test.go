//go:build linux

package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pinfold.dev/pinfold/cmd/internal/frame"
	"pinfold.dev/pinfold/core/blame"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/report/perfetto/perfettotest"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/tracefile"
)

// TestSampleExact records a group that wants a CPU and gets a fifth of one, and traces its thread.
// What was traced equals what the kernel counted; demand is not known, as the thread never catches
// up.
func TestSampleExact(t *testing.T) {
	fs, name := group(t)
	spin(t, fs, name)
	dir := t.TempDir()
	file := filepath.Join(dir, "a.parquet")
	pinfold := func(args ...string) string {
		t.Helper()
		var stdout, stderr bytes.Buffer
		err := frame.Run(t.Context(), newRoot("pinfold"), args, nil, &stdout, &stderr)
		if err != nil && strings.Contains(err.Error(), "cannot trace the scheduler") {
			t.Skip(err)
		}
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, &stderr)
		}
		return stdout.String()
	}
	text := pinfold("sample", name, "--duration", "2s", "-o", file, "--exact", "--max-cost", "100")
	for _, want := range []string{"traced     threads ran for", "tracing    took"} {
		if !strings.Contains(text, want) {
			t.Errorf("the summary has no %q:\n%s", want, text)
		}
	}
	rec, _, err := tracefile.Read(file, 0)
	if err != nil {
		t.Fatal(err)
	}
	x, sum := rec.Series[0].Exact, trace.Summarise(&rec.Series[0], rec.Interval)
	if x == nil {
		t.Fatal("no spans were recorded")
	}
	// What interrupts and the hypervisor used is not in the counter of the usage.
	if ran, used := x.Running.Seconds(), sum.Usage.Seconds(); ran < .9*used-.02 || x.Running > sum.Time {
		t.Errorf("ran for %v s, the kernel counted %v s", ran, used)
	}
	if more := float64(x.Periods()) - float64(sum.Periods); math.Abs(more) > 1 {
		t.Errorf("%d timer periods, the kernel counted %d", x.Periods(), sum.Periods)
	}
	if x.Throttled+x.Waiting < time.Second || x.Unknown > 200*time.Millisecond {
		t.Errorf("throttled %v, waited %v, unknown %v", x.Throttled, x.Waiting, x.Unknown)
	}
	d, err := rec.Series[0].Demand(rec.Interval, rec.Interval)
	if err != nil || !d.Exact || d.Open == 0 || d.OpenShare < .5 {
		t.Errorf("%v exact, %d open, %v of the time, %v", d.Exact, d.Open, d.OpenShare, err)
	}
	states := map[blame.State]time.Duration{}
	for s, err := range tracefile.Spans(file) {
		if err != nil {
			t.Fatal(err)
		}
		if s.Quota == nil && (s.Group != name || s.Process != "sh") {
			t.Errorf("%+v", s)
		}
		states[s.State] += s.To - s.From
	}
	if states[blame.Running] != x.Running || states[blame.Throttled] != x.Throttled {
		t.Errorf("the table has %v, the series %+v", states, x)
	}
	if text := pinfold("trace", "info", file); !strings.Contains(text, "traced     threads ran for") {
		t.Error(text)
	}
	if text := pinfold("trace", "info", file, "-o", "json"); !strings.Contains(text, `"traced":{"runningSeconds":`) {
		t.Error(text)
	}
	viewer := filepath.Join(dir, "a.pftrace")
	pinfold("trace", "export", file, "--perfetto", viewer)
	content := must.Get(os.ReadFile(viewer))(t)
	t.Run("viewer", func(t *testing.T) {
		rows := perfettotest.Query(t, "../..", content, `select cast(sum(slice.dur) as text) from slice join track on slice.track_id = track.id
			where track.name glob 'sh *' and slice.name = 'throttled'`)
		if want := fmt.Sprint(x.Throttled.Nanoseconds()); len(rows) != 1 || rows[0] != want {
			t.Errorf("throttled for %v, want %v", rows, want)
		}
	})
}
