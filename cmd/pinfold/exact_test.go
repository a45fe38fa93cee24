//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pinfold.dev/pinfold/cmd/internal/frame"
	"pinfold.dev/pinfold/core/blame"
	"pinfold.dev/pinfold/report/perfetto/perfettotest"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/tracefile"
)

// TestSampleExact records a group that wants a CPU and gets a fifth of one, and traces its thread. The
// recording, its table of spans and the file for viewers have the same times.
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
	text := pinfold("sample", name, "--duration", "1s", "-o", file, "--exact", "--max-cost", "100")
	for _, want := range []string{"traced     threads ran for", "tracing    took"} {
		if !strings.Contains(text, want) {
			t.Errorf("the summary has no %q:\n%s", want, text)
		}
	}
	rec, _, err := tracefile.Read(file, 0)
	if err != nil {
		t.Fatal(err)
	}
	x := rec.Series[0].Exact
	if x == nil {
		t.Fatal("no spans were recorded")
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
		if x.Throttled == 0 {
			t.Skip("disturbed: other programs left the group less than its quota")
		}
		rows := perfettotest.Query(t, "../..", content, `select cast(sum(slice.dur) as text) from slice join track on slice.track_id = track.id
			where track.name glob 'sh *' and slice.name = 'throttled'`)
		if want := fmt.Sprint(x.Throttled.Nanoseconds()); len(rows) != 1 || rows[0] != want {
			t.Errorf("throttled for %v, want %v", rows, want)
		}
	})
}
