package tracefile

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
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
			s.Samples[i].Late = s.Samples[i].Late || s.Samples[i].Usage%3 == 0 || i >= 20
		}
	}
	return rec
}

// TestForeignFiles reads CSV files that pandas and DuckDB wrote in all their ways, and compares every
// value. It converts their Parquet files with the command in the message that refuses them.
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
				if filepath.Ext(file) == ".parquet" {
					file = converted(t, python, file)
				}
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

// TestTableOfSpans: the second table of an exact recording names the first.
func TestTableOfSpans(t *testing.T) {
	if err := errForeign("dir/web.spans.parquet"); !strings.Contains(err.Error(), "name dir/web.parquet") {
		t.Error(err)
	}
}

// converted runs the command of the message about a Parquet file and returns the name of the CSV
// file that it writes.
func converted(t *testing.T, python, file string) string {
	t.Helper()
	_, _, err := Read(file, 0)
	if err == nil {
		t.Fatal("a Parquet file of another program is read")
	}
	_, command, ok := strings.Cut(err.Error(), "convert it to CSV: python3 ")
	if !ok {
		t.Fatalf("%v has no command", err)
	}
	if out, err := exec.Command("sh", "-c", python+" -W ignore "+command).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return strings.TrimSuffix(file, ".parquet") + ".csv"
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
				Limits: bandwidth.Limits{Quota: bandwidth.Unlimited}, Unknown: trace.UsageOnly})
		}
		out.Series = append(out.Series, series)
	}
	return out
}

// TestCoarseTimes reads samples that are shorter than the unit in which another program wrote their
// times. They follow each other, as they did.
func TestCoarseTimes(t *testing.T) {
	const ms = time.Millisecond
	for interval, c := range map[time.Duration]struct {
		unit   time.Duration
		layout string
	}{
		100 * ms: {time.Second, ""}, 30 * ms: {time.Second, time.DateTime}, 10 * ms: {ms, "2006-01-02 15:04:05.000"}, 999 * ms: {time.Second, time.RFC3339},
	} {
		start := time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC)
		text := "time,group,interval_ns,usage_ns\n"
		const n = 200
		for i := range n {
			end := start.Add(time.Duration(i+1) * interval)
			stamp := strconv.FormatInt(end.UnixNano()/int64(c.unit), 10)
			if c.layout != "" {
				stamp = end.Truncate(c.unit).Format(c.layout)
			}
			text += fmt.Sprintf("%s,/a,%d,%d\n", stamp, interval, i)
		}
		rec, ok := all(newCSVReader(strings.NewReader(text)))
		if !ok {
			t.Errorf("samples of %v in units of %v are refused", interval, c.unit)
			continue
		}
		for i, s := range rec.Series[0].Samples {
			want := start.Add(time.Duration(i+1) * interval)
			if off := want.Sub(rec.Start.Add(s.At)); s.Usage != time.Duration(i) || off < -c.unit || off > c.unit {
				t.Errorf("sample %d of %v is at %v, off by %v", i, interval, s.At, off)
			}
		}
	}
	text := "time,group,interval_ns,usage_ns\n1772366400,/a,2000000000,1\n1772366401,/a,2000000000,1\n"
	if rec, ok := all(newCSVReader(strings.NewReader(text))); ok {
		t.Errorf("samples that overlap by a second were read: %+v", rec)
	}
}
