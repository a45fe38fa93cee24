package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/linux/confine"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/tracefile"
)

func TestMain(m *testing.M) {
	if status, ok := confine.Helper(os.Args[1:]); ok {
		os.Exit(status)
	}
	os.Exit(m.Run())
}

// TestRecord records a program that every machine has.
func TestRecord(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: it makes a control group")
	}
	file := filepath.Join(t.TempDir(), "programs.parquet")
	must.Do(t, run(t.Context(), []string{"-run", "^sums$", "-duration", "4s", "-o", file}, t.Output(), io.Discard))
	recording, _, err := tracefile.Read(file, 0)
	must.Do(t, err)
	if len(recording.Series) != 1 || recording.Series[0].Group != "/sums" {
		t.Fatalf("recorded %d series, want /sums", len(recording.Series))
	}
	if s := trace.Summarise(&recording.Series[0], recording.Interval); len(recording.Series[0].Samples) < 30 || s.CPUs() == 0 {
		t.Errorf("%d samples, %.3f CPUs", len(recording.Series[0].Samples), s.CPUs())
	}
}
