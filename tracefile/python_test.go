package tracefile

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/need"
)

// TestPython reads a Parquet file with pandas and DuckDB and an .npy file with numpy, and compares
// every value.
func TestPython(t *testing.T) {
	python := pythonWith(t, "numpy", "pandas", "pyarrow", "duckdb")
	dir := t.TempDir()
	rec := sorted(steady([]string{"/a", "/kubepods/b"}, 200))
	parquet, npy := filepath.Join(dir, "a.parquet"), filepath.Join(dir, "a.npy")
	spans := steadySpans([]string{"/a", "/c"}, 20)
	recordTo(t, rec, parquet, spans...)
	must.Get(Write(Output{Name: npy}, header(rec), Only(Rows(rec), func(r *Row) bool { return r.Group == "/a" })))(t)
	command := exec.Command(python, "testdata/read.py", parquet, SpansOf(parquet), npy)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	var want bytes.Buffer
	encoder := json.NewEncoder(&want)
	values := []int64{}
	for row, err := range Rows(rec) {
		if err != nil {
			t.Fatal(err)
		}
		if row.Group == "/a" {
			values = append(values, int64(row.Usage))
		}
		must.Do(t, encoder.Encode(columnsOf(header(rec), row)))
	}
	for _, s := range spans {
		must.Do(t, encoder.Encode(columnsOfSpan(header(rec), &s)))
	}
	must.Do(t, encoder.Encode(map[string]any{"dtype": "int64", "values": values}))
	if diff := cmp.Diff(lines(t, want.Bytes()), lines(t, out)); diff != "" {
		t.Errorf("Python reads other values (-want +got):\n%s", diff)
	}
}

// columnsOf returns the columns of a row, independently of the code that writes files.
func columnsOf(h Header, r *Row) map[string]any {
	columns := map[string]any{
		"time": h.Start.Add(r.At).UnixNano(), "group": r.Group, "name": nil, "interval_ns": r.Interval, "usage_ns": r.Usage,
		"periods": r.Periods, "throttled_periods": r.Throttled, "throttled_time_ns": r.ThrottledTime,
		"burst_periods": r.Bursts, "burst_time_ns": r.BurstTime,
		"quota_ns": nil, "period_ns": r.Limits.Period, "burst_ns": r.Limits.Burst,
		"late": r.Late, "nominal_interval_ns": h.Interval, "waited_ns": r.Waited,
		"raised": nil, "trace_ended": nil,
	}
	if r.Name != "" {
		columns["name"] = r.Name
	}
	if r.Limits.Quota != -1 {
		columns["quota_ns"] = r.Limits.Quota
	}
	return columns
}

// columnsOfSpan returns the columns of a span, independently of the code that writes files.
func columnsOfSpan(h Header, s *trace.Span) map[string]any {
	columns := map[string]any{
		"start": h.Start.Add(s.From).UnixNano(), "length_ns": s.To - s.From, "group": s.Group, "name": nil, "state": s.State.String(),
		"thread": s.Thread, "process": nil, "cpu": s.CPU, "behind": nil,
		"quota_before_ns": 0, "quota_left_ns": 0, "periods": 0, "throttled_periods": 0, "throttled_time_ns": 0,
	}
	for name, text := range map[string]string{"name": s.Name, "process": s.Process, "behind": s.Behind} {
		if text != "" {
			columns[name] = text
		}
	}
	if q := s.Quota; q != nil {
		columns["state"] = "edge"
		columns["quota_before_ns"], columns["quota_left_ns"] = q.Before, q.Left
		columns["periods"], columns["throttled_periods"], columns["throttled_time_ns"] = q.Periods, q.Throttled, q.ThrottledTime
	}
	return columns
}

// lines decodes JSON line by line, and numbers as json.Number.
func lines(t *testing.T, text []byte) []map[string]any {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var out []map[string]any
	for decoder.More() {
		var line map[string]any
		must.Do(t, decoder.Decode(&line))
		out = append(out, line)
	}
	return out
}

// pythonWith returns the path of a Python that has the modules: in bin/python, which .ci/run
// creates, or the system's.
func pythonWith(t *testing.T, modules ...string) string {
	need.This(t, "Python with pandas, pyarrow and duckdb")
	script := ""
	for _, m := range modules {
		script += "import " + m + "\n"
	}
	own := must.Get(filepath.Abs("../bin/python/bin/python3"))(t)
	for _, name := range []string{own, "python3"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		command := exec.Command(path, "-c", script)
		command.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
		if command.Run() == nil {
			return path
		}
	}
	t.Skip("no python3 with pandas, pyarrow and duckdb: python3 -m venv bin/python && bin/python/bin/pip install -r tools/python/requirements.txt")
	return ""
}
