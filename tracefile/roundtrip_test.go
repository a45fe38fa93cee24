package tracefile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/must"
)

func header(rec *trace.Recording) Header { return Header{rec.Start, rec.Interval} }

// sorted sorts the series of a recording by group.
func sorted(rec *trace.Recording) *trace.Recording {
	slices.SortFunc(rec.Series, func(a, b trace.Series) int { return strings.Compare(a.Group, b.Group) })
	return rec
}

// TestRoundTrip writes random recordings in each format and reads them back.
func TestRoundTrip(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		rec := sorted(drawRecording(t))
		for format, name := range map[Format]string{Parquet: dir + "/a.parquet", CSV: dir + "/a.csv"} {
			f := must.Get(os.Create(name))(t)
			w := must.Get(newWriter(format, f, header(rec)))(t)
			for _, row := range inTime(rec) {
				must.Do(t, w.Write(row))
			}
			must.Do(t, errors.Join(w.Close(), f.Close()))
			check(t, rec, name)
		}
	})
}

// TestConvert records to a file of each format and converts it to each format.
func TestConvert(t *testing.T) {
	dir := t.TempDir()
	rec := steady([]string{"/a", "/b"}, 30)
	for _, from := range []string{"from.parquet", "from.csv"} {
		name := filepath.Join(dir, from)
		recordTo(t, rec, name)
		check(t, rec, name)
		if _, err := os.Stat(JournalOf(name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the journal still exists: %v", err)
		}
		for _, to := range []string{"to.parquet", "to.csv"} {
			converted := filepath.Join(dir, to)
			must.Get(Convert(name, Output{converted, true}))(t)
			check(t, rec, converted)
		}
	}
}

type tester interface {
	Helper()
	Fatal(...any)
	Errorf(string, ...any)
}

func recordTo(t tester, rec *trace.Recording, name string, spans ...trace.Span) {
	t.Helper()
	r := must.Get(Record(Output{name, true}, header(rec)))(t)
	rows := inTime(rec)
	for _, row := range rows {
		must.Do(t, r.Append(row))
	}
	for _, s := range spans {
		must.Do(t, r.AppendSpan(&s))
	}
	c := must.Get(r.Finish())(t)
	if c.Rows != int64(len(rows)) || c.Spans != int64(len(spans)) {
		t.Errorf("%d rows and %d spans written, want %d and %d", c.Rows, c.Spans, len(rows), len(spans))
	}
}

func check(t tester, want *trace.Recording, name string) {
	t.Helper()
	got, lost, err := Read(name, 0)
	if err != nil {
		t.Fatal(err)
	}
	if lost != 0 {
		t.Errorf("%d bytes of %s were lost", lost, name)
	}
	if diff := cmp.Diff(want, sorted(got)); diff != "" {
		t.Errorf("%s: another recording (-want +got):\n%s", filepath.Ext(name), diff)
	}
}

// TestManyRows writes more than one row group.
func TestManyRows(t *testing.T) {
	rec := steady([]string{"/a", "/b", "/c"}, rowsPerGroup/3+1000)
	name := filepath.Join(t.TempDir(), "many.parquet")
	recordTo(t, rec, name)
	got, _, err := Read(name, 0)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(rec, got) {
		t.Error("the recording that was read differs")
	}
	info := must.Get(os.Stat(name))(t)
	perSample := float64(info.Size()) / float64(3*len(rec.Series[0].Samples))
	t.Logf("%.1f bytes per sample", perSample)
	if perSample > 16 {
		t.Errorf("a sample takes %.1f bytes, want at most 16", perSample)
	}
}

// TestCSVGolden compares the text of a small recording.
func TestCSVGolden(t *testing.T) {
	const file = "testdata/small.csv"
	rec := steady([]string{"/a", "/b"}, 4)
	var b bytes.Buffer
	must.Get(WriteCSV(&b, header(rec), Rows(rec)))(t)
	golden.Compare(t, file, b.String())
	check(t, rec, file)
}

// TestForeignCSV reads CSV with unknown columns, in another order, with some missing.
func TestForeignCSV(t *testing.T) {
	name := filepath.Join(t.TempDir(), "foreign.csv")
	text := "\ufeffgroup,usage_ns,mood,interval_ns,time\n" +
		"/a,5,good,100,2026-01-01T01:00:00.0000001+01:00\n" +
		"/a,6,\"so, so\",100,2026-01-01T00:00:00.0000002Z\n"
	must.Do(t, os.WriteFile(name, []byte(text), 0o600))
	got, _, err := Read(name, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got.Interval != 100 || !got.Start.Equal(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("start %v, interval %v", got.Start, got.Interval)
	}
	if s := got.Series[0].Samples; len(s) != 2 || s[1].Usage != 6 || s[1].At != 200 || s[1].Limits.Quota != -1 {
		t.Errorf("samples %+v", s)
	}
}

// TestInvalidFiles reads files that are not recordings.
func TestInvalidFiles(t *testing.T) {
	const head = "time,group,interval_ns,usage_ns,late\n"
	const at, exact = "2026-01-01T00:00:00Z", "2026-01-01T00:00:00.000000000Z"
	for name, c := range map[string]struct{ text, want string }{
		"empty":          {"", "contains no samples"},
		"no rows":        {head, "contains no samples"},
		"other columns":  {"a,b\n1,2\n", `no column "time"`},
		"binary":         {"\x00\x01\x02\x03", "no column"},
		"words":          {head + at + ",/a,x,1,false\n", `line 2: column "interval_ns"`},
		"no time":        {head + "yesterday,/a,1,1,false\n", `line 2: column "time"`},
		"old time":       {head + "0001-01-01T00:00:00Z,/a,1,1,false\n", `"0001-01-01T00:00:00Z": the time is out of range`},
		"no interval":    {head + at + ",/a,0,1,false\n", "line 2, at 2026-01-01T00:00:00Z: the interval is 0s"},
		"negative usage": {head + at + ",/a,1,-1,false\n", "the usage is -1ns"},
		"no group":       {head + at + ",,1,1,false\n", `line 2: column "group": the value is missing`},
		"overlap":        {head + exact + ",/a,100,1,false\n" + exact + ",/a,100,1,false\n", "begins 100ns before the end of the previous one"},
		"rounded times":  {head + "1.77237E+18,/a,1e8,1,false\n1.77237E+18,/a,1e8,1,false\n", "the times are in steps of 2h46m40s, in which there are several samples: save them with more digits"},
		"minutes":        {head + "2026-03-01 12:00,/a,1e8,1,false\n2026-03-01 12:00,/a,1e8,1,false\n", "the times are in steps of 1m0s"},
		"metrics":        {"# HELP container_cpu_usage_seconds_total x\n", "asks the server that reads them"},
		"one metric":     {"container_cpu_usage_seconds_total{cpu=\"total\",id=\"/\"} 5 1772366400000\n", "asks the server that reads them"},
		"dumped":         {"{__name__=\"container_cpu_usage_seconds_total\", id=\"/\"} 5 1772366400000\n", "asks the server that reads them"},
		"half Parquet":   {"PAR1 and then something else", "not a complete Parquet file"},
		"half journal":   {journalMagic + "abc", "contains no samples"},
		"bad magic":      {"pin", "contains no samples"},
		"many periods":   {"time,group,interval_ns,usage_ns,periods\n" + at + ",/a,1,1,5e9\n", `column "periods": 5000000000 is out of range: want 0 to 4294967295`},
		"perhaps":        {head + at + ",/a,1,1,perhaps\n", `line 2: column "late": "perhaps": want true or false`},
		"missing usage":  {head + at + ",/a,100,NaN,false\n", `line 2: column "usage_ns": the value is missing, and the column is required`},
		"second row":     {head + at + ",/a,1,1,\n\n2026-01-02,,1,1,\n", `line 4: column "group": the value is missing`},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "x")
			must.Do(t, os.WriteFile(file, []byte(c.text), 0o600))
			_, _, err := Read(file, time.Second)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), file+": ") {
				t.Fatalf("error %v, want one with %q and the file's name", err, c.want)
			}
			for _, foreign := range []string{"strconv", "parsing", "2006", "invalid syntax", "csv:", "EOF"} {
				if strings.Contains(strings.TrimPrefix(err.Error(), file), foreign) { // whose name has random digits
					t.Errorf("the error has words of a library: %v", err)
				}
			}
		})
	}
	if _, _, err := Read(t.TempDir()+"/nowhere", 0); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

// TestDamagedParquet truncates a file at many places and flips bits of its pages. Reading it never
// panics, and most damage is detected, because pages have checksums. The footer has none and is not
// changed.
func TestDamagedParquet(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "a.parquet")
	rec := steady([]string{"/a", "/b"}, 8)
	recordTo(t, rec, name)
	whole := must.Get(os.ReadFile(name))(t)
	damaged := filepath.Join(dir, "b.parquet")
	read := func(content []byte) error {
		must.Do(t, os.WriteFile(damaged, content, 0o600))
		_, _, err := Read(damaged, 0)
		return err
	}
	for i := 0; i < len(whole); i += 11 {
		if read(whole[:i]) == nil {
			t.Errorf("no error after a cut at byte %d of %d", i, len(whole))
		}
	}
	footer := len(whole) - 8 - int(binary.LittleEndian.Uint32(whole[len(whole)-8:]))
	detected := 0
	for i := 4; i < footer; i += 11 {
		if read(flipped(whole, i)) != nil {
			detected++
		}
	}
	if detected < footer/30 {
		t.Errorf("of %d flipped bits only %d were detected", footer/11, detected)
	}
}

func flipped(b []byte, i int) []byte {
	b = slices.Clone(b)
	b[i] ^= 1 << (i % 8)
	return b
}

func TestFormatOf(t *testing.T) {
	for name, want := range map[string]Format{
		"x.parquet": Parquet, "dir.x/X.PARQUET": Parquet, "-": CSV, "a.csv": CSV, "a.npy": NPY,
		"a.xlsx": 0, "parquet": 0, "": 0, "a.parquet.journal": 0,
	} {
		f, err := FormatOf(name)
		if f != want || (err != nil) != (want == 0) {
			t.Errorf("%q: %v, %v", name, f, err)
		}
	}
}

// TestTooMuchTime: times that are valid one by one but whose sum would overflow.
func TestTooMuchTime(t *testing.T) {
	for _, column := range []string{"usage_ns", "throttled_time_ns", "burst_time_ns", "waited_ns"} {
		text := "time,group,interval_ns,usage_ns," + strings.Replace(column, "usage_ns", "burst_ns", 1) + "\n"
		for i := range 4 {
			text += fmt.Sprintf("2026-01-01T00:00:0%dZ,/a,1000000000,", i)
			if column == "usage_ns" {
				text += "3000000000000000000,0\n"
			} else {
				text += "0,3000000000000000000\n"
			}
		}
		if rec, ok := all(newCSVReader(strings.NewReader(text))); ok {
			t.Errorf("%s: read %+v", column, rec)
		}
	}
}
