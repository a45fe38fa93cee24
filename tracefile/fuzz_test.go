package tracefile

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pinfold.dev/pinfold/core/trace"
)

// all reads what is left of a reader; false when that is no recording.
func all(rows reader, err error) (*trace.Recording, bool) {
	if err != nil {
		return nil, false
	}
	f := &File{rows: rows, read: map[string]*readGroup{}}
	rec, err := Gather(f.Header(), f.Rows())
	return rec, err == nil
}

// FuzzCSV reads anything as CSV. What is read holds to the rules of samples, and is read
// again from CSV of our own.
func FuzzCSV(f *testing.F) {
	text, err := os.ReadFile("testdata/small.csv")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte("time,group,interval_ns,usage_ns\n2026-01-01T00:00:00Z,/a,100,1\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		rec, ok := all(newCSVReader(bytes.NewReader(content)))
		if !ok {
			return
		}
		checkSeries(t, rec)
		var b bytes.Buffer
		if _, err := WriteCSV(&b, header(rec), Rows(rec)); err != nil {
			t.Fatal(err)
		}
		again, ok := all(newCSVReader(&b))
		if !ok {
			t.Fatalf("our own CSV is refused:\n%s", &b)
		}
		for _, r := range []*trace.Recording{rec, again} { // a carriage return in a name may be lost
			r.Start = r.Start.UTC()
			for i := range r.Series {
				r.Series[i].Group, r.Series[i].Name = "", ""
			}
		}
		if diff := cmp.Diff(rec, again); diff != "" {
			t.Errorf("our own CSV is read differently (-want +got):\n%s", diff)
		}
	})
}

// FuzzNPY reads anything as .npy.
func FuzzNPY(f *testing.F) {
	for _, name := range []string{"float32", "float64", "int32", "int64", "version2", "bad-structs", "bad-cut"} {
		text, err := os.ReadFile("testdata/npy/" + name + ".npy")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		rec, ok := all(newNPYReader(bytes.NewReader(content), "/a", 100*time.Millisecond))
		if !ok {
			return
		}
		checkSeries(t, rec)
		if size := 8 * len(slices.Concat(rec.Series[0].Samples)); size > 2*len(content) {
			t.Errorf("%d bytes of values of a file of %d", size, len(content))
		}
	})
}

func checkSeries(t *testing.T, rec *trace.Recording) {
	for _, s := range rec.Series {
		for i := range s.Samples {
			if err := s.Samples[i].Validate(); err != nil {
				t.Errorf("group %q: %v", s.Group, err)
			}
		}
		trace.Summarise(&s, rec.Interval)
		trace.TimescalesAt(&s, rec.Interval, trace.Lengths(rec.Interval, 10*rec.Interval))
	}
}

// FuzzBlock decodes the content of a block, which no checksum protects here.
func FuzzBlock(f *testing.F) {
	rec := steady([]string{"/a", "/b"}, 3)
	var content []byte
	content = appendGroup(content, "/a", "")
	content = appendGroup(content, "/b", "x")
	for i, s := range rec.Series {
		content = appendSample(content, i, &Row{s.Group, s.Name, s.Samples[0]}, 0, new(s.Samples[1].Limits))
	}
	f.Add(content)
	f.Add(appendHeader(nil, header(rec)))
	f.Fuzz(func(t *testing.T, content []byte) {
		d := &decoder{}
		d.begin(content)
		if h, err := d.header(); err == nil && h.Interval <= 0 {
			t.Errorf("header %+v", h)
		}
		d = &decoder{}
		d.begin(content)
		for r, err := d.next(); err == nil; r, err = d.next() {
			if err := r.check(); err != nil {
				t.Error(err)
			}
		}
	})
}

// FuzzParquet reads anything as Parquet, in little memory. Most of what is changed in a file
// is found by checksums, so the files begin without compression.
func FuzzParquet(f *testing.F) {
	for _, x := range []hostile{{}, {finish: func(b []byte) []byte { return b[:len(b)-20] }}} {
		name := filepath.Join(f.TempDir(), "x.parquet")
		x.write(f, name)
		content, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(content)
	}
	name := filepath.Join(f.TempDir(), "fuzz.parquet")
	f.Fuzz(func(t *testing.T, content []byte) {
		if len(content) > 16<<10 {
			t.Skip("larger files may take more memory")
		}
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
		var rec *trace.Recording
		var err error
		if used := allocated(func() { rec, _, err = Read(name, 0) }); used > 2*mostMemory {
			t.Errorf("%d bytes took %d MiB", len(content), used>>20)
		}
		if err == nil {
			checkSeries(t, rec)
		}
	})
}
