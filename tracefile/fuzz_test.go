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
	"pinfold.dev/pinfold/test/must"
)

// all reads a whole recording from a reader. ok is false if the content is not valid.
func all(rows reader, err error) (rec *trace.Recording, ok bool) {
	if err != nil {
		return nil, false
	}
	f := &File{rows: rows, groups: map[string]*groupSums{}}
	rec, err = Gather(f.Header(), f.Rows())
	return rec, err == nil
}

// FuzzCSV reads arbitrary content as CSV. Accepted samples are valid and survive a round trip.
func FuzzCSV(f *testing.F) {
	text := must.Get(os.ReadFile("testdata/small.csv"))(f)
	f.Add(text)
	f.Add([]byte("time,group,interval_ns,usage_ns\n2026-01-01T00:00:00Z,/a,100,1\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		rec, ok := all(newCSVReader(bytes.NewReader(content)))
		if !ok {
			return
		}
		checkSeries(t, rec)
		var b bytes.Buffer
		must.Get(WriteCSV(&b, header(rec), Rows(rec)))(t)
		again, ok := all(newCSVReader(&b))
		if !ok {
			t.Fatalf("the CSV that was written is rejected:\n%s", &b)
		}
		for _, r := range []*trace.Recording{rec, again} { // encoding/csv may lose a carriage return in a name
			r.Start = r.Start.UTC()
			for i := range r.Series {
				r.Series[i].Group, r.Series[i].Name = "", ""
			}
		}
		if diff := cmp.Diff(rec, again); diff != "" {
			t.Errorf("the round trip changed the recording (-want +got):\n%s", diff)
		}
	})
}

// FuzzNPY reads arbitrary content as .npy.
func FuzzNPY(f *testing.F) {
	for _, name := range []string{"float32", "float64", "int32", "int64", "version2", "bad-structs", "bad-cut"} {
		text := must.Get(os.ReadFile("testdata/npy/" + name + ".npy"))(f)
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		rec, ok := all(newNPYReader(bytes.NewReader(content), "/a", 100*time.Millisecond))
		if !ok {
			return
		}
		checkSeries(t, rec)
		if size := 8 * len(slices.Concat(rec.Series[0].Samples)); size > 2*len(content) {
			t.Errorf("a file of %[2]d bytes has %[1]d bytes of values", size, len(content))
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

// FuzzBlock decodes arbitrary content of a block, without its checksum.
func FuzzBlock(f *testing.F) {
	rec := steady([]string{"/a", "/b"}, 3)
	var content []byte
	content = appendGroup(content, "/a", "")
	content = appendGroup(content, "/b", "x")
	for i, s := range rec.Series {
		content = appendSample(content, i, &Row{s.Group, s.Name, s.Samples[0]}, 0, new(s.Samples[1].Limits))
	}
	f.Add(content)
	content = appendText(append(content, kindText), "x")
	for _, s := range steadySpans([]string{"/a"}, 1) {
		content = appendSpan(content, 0, &s, 0, 1, uint64(len(s.Behind)/6))
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
		for r, s, err := d.next(); err == nil; r, s, err = d.next() {
			if r != nil {
				err = r.check()
			} else {
				err = s.Validate()
			}
			if err != nil {
				t.Error(err)
			}
		}
	})
}

// FuzzParquet reads arbitrary content as Parquet and checks the memory use. The seeds have no
// checksums, so that changes of their pages reach the decoders.
func FuzzParquet(f *testing.F) {
	for _, x := range []hostile{{}, {finish: func(b []byte) []byte { return b[:len(b)-20] }}} {
		name := filepath.Join(f.TempDir(), "x.parquet")
		x.write(f, name)
		content := must.Get(os.ReadFile(name))(f)
		f.Add(content)
	}
	name := filepath.Join(f.TempDir(), "fuzz.parquet")
	f.Fuzz(func(t *testing.T, content []byte) {
		if len(content) > 16<<10 {
			t.Skip("the memory limit depends on the size of the file")
		}
		must.Do(t, os.WriteFile(name, content, 0o600))
		var rec *trace.Recording
		var err error
		if used := allocated(func() { rec, _, err = Read(name, 0) }); used > 2*maxMemory {
			t.Errorf("reading %d bytes allocated %d MiB", len(content), used>>20)
		}
		if err == nil {
			checkSeries(t, rec)
		}
	})
}
