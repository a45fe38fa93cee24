package tracefile

import (
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/test/must"
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

// TestForeignFiles reads files that pandas, pyarrow and DuckDB wrote in all their ways, and
// compares every value.
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

// TestParquetErrors names the column, the row and what is wanted.
func TestParquetErrors(t *testing.T) {
	type row struct {
		Time     int64   `parquet:"time,timestamp(millisecond)"`
		Group    string  `parquet:"group,optional"`
		Interval string  `parquet:"interval_ns"`
		Usage    float64 `parquet:"usage_ns"`
		Periods  int64   `parquet:"periods"`
	}
	good := row{Time: 1772366400100, Group: "/a", Interval: "100000000", Usage: 5e7}
	for name, c := range map[string]struct {
		change func(*row)
		want   string
	}{
		"fraction":  {func(r *row) { r.Usage = 0.25 }, `row 3: column "usage_ns": 0.25: want a whole number`},
		"missing":   {func(r *row) { r.Usage = math.NaN() }, `row 3: column "usage_ns": the value is missing, and the column is required`},
		"huge":      {func(r *row) { r.Usage = 1e30 }, `row 3: column "usage_ns": 1e+30: the number is too large`},
		"no group":  {func(r *row) { r.Group = "" }, `row 3: column "group": the value is missing`},
		"words":     {func(r *row) { r.Interval = "a while" }, `row 3: column "interval_ns": "a while": want a whole number`},
		"negative":  {func(r *row) { r.Periods = -1 }, `row 3: column "periods": -1 is out of range: want 0 to 4294967295`},
		"far away":  {func(r *row) { r.Time = 1e17 }, `row 3: column "time": the time is out of range`},
		"no length": {func(r *row) { r.Interval = "0" }, `row 3: the interval is 0s`},
	} {
		t.Run(name, func(t *testing.T) {
			rows := []row{good, good, good}
			for i := range rows {
				rows[i].Time += int64(i) * 100
			}
			c.change(&rows[2])
			file := filepath.Join(t.TempDir(), "a.parquet")
			must.Do(t, parquet.WriteFile(file, rows))
			if _, _, err := Read(file, 0); err == nil || !strings.HasPrefix(err.Error(), file+": "+c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
	type date struct {
		Time     int32  `parquet:"time,date"`
		Group    string `parquet:"group"`
		Interval int64  `parquet:"interval_ns"`
		Usage    int64  `parquet:"usage_ns"`
	}
	file := filepath.Join(t.TempDir(), "a.parquet")
	must.Do(t, parquet.WriteFile(file, []date{{1, "/a", 1, 1}}))
	if _, _, err := Read(file, 0); err == nil || !strings.Contains(err.Error(), `column "time" is of type DATE, want a TIMESTAMP`) {
		t.Errorf("dates: %v", err)
	}
}
