package tracefile

import (
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/trace"
)

// onGrid returns a recording whose times are whole tenths of a second, so that no program rounds
// them.
func onGrid() *trace.Recording {
	rec := steady([]string{"/a", "/kubepods/b"}, 40)
	rec.Start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, s := range rec.Series {
		for i := range s.Samples {
			s.Samples[i].Interval = s.Samples[i].Interval.Round(rec.Interval)
			s.Samples[i].At = s.Samples[i].At.Round(rec.Interval)
		}
	}
	return rec
}

// TestForeignFiles reads files that pandas, pyarrow and DuckDB wrote in all their ways, and compares
// every value.
func TestForeignFiles(t *testing.T) {
	python := pythonWith(t, "numpy", "pandas", "pyarrow", "duckdb")
	dir := t.TempDir()
	rec := onGrid()
	base := filepath.Join(dir, "base.parquet")
	recordTo(t, rec, base)
	if out, err := exec.Command(python, "testdata/write.py", base, dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	first := &trace.Recording{Start: rec.Start, Interval: rec.Interval, Series: rec.Series[:1]}
	for directory, want := range map[string]*trace.Recording{"all": rec, "first": first, "required": requiredOf(rec)} {
		files, err := filepath.Glob(filepath.Join(dir, directory, "*"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%d files in %s, %v", len(files), directory, err)
		}
		t.Logf("%s: %d files", directory, len(files))
		for _, file := range files {
			t.Run(directory+"/"+filepath.Base(file), func(t *testing.T) {
				got, _, err := Read(file, 0)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, sorted(rounded(got))); diff != "" {
					t.Errorf("another recording (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// rounded rounds times to microseconds, as floating-point numbers of seconds are no more precise.
func rounded(rec *trace.Recording) *trace.Recording {
	rec.Start = rec.Start.Round(time.Microsecond)
	for _, s := range rec.Series {
		for i := range s.Samples {
			s.Samples[i].At = s.Samples[i].At.Round(time.Microsecond)
		}
	}
	return rec
}

// requiredOf returns what the required columns have of a recording.
func requiredOf(rec *trace.Recording) *trace.Recording {
	out := &trace.Recording{Start: rec.Start, Interval: rec.Interval}
	for _, s := range rec.Series {
		series := trace.Series{Group: s.Group}
		for _, sample := range s.Samples {
			series.Samples = append(series.Samples, trace.Sample{At: sample.At, Interval: sample.Interval, Usage: sample.Usage,
				Limits: bandwidth.Limits{Quota: bandwidth.Unlimited}})
		}
		out.Series = append(out.Series, series)
	}
	return out
}
