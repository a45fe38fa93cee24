package cluster

import (
	"io"
	"path/filepath"
	"strings"
	"testing"

	"pinfold.dev/pinfold/tracefile"
)

// TestBrokenStream cuts a stream of samples at every byte. What is recorded are the rows that have
// arrived whole, and never another number.
func TestBrokenStream(t *testing.T) {
	const header, first, second = "time,group,interval_ns,usage_ns\n", "2026-11-26T11:25:19Z,/a,100000000,12345\n", "2026-11-26T11:25:19.1Z,/a,100000000,67890\n"
	const all = header + first + second
	for end := range len(all) + 1 {
		o := &sampleOptions{}
		o.output.Name = filepath.Join(t.TempDir(), "a.parquet")
		in, out := io.Pipe()
		go func() {
			l := &lines{w: out}
			for piece := range strings.SplitAfterSeq(all[:end], "9") {
				if _, err := io.WriteString(l, piece); err != nil {
					t.Error(err)
				}
			}
			_ = out.Close()
		}()
		if err := o.record(in, io.Discard); err != nil {
			t.Fatalf("%q: %v", all[:end], err)
		}
		rec, _, err := tracefile.Read(o.output.Name, 0)
		want := 0
		for _, whole := range []int{len(header + first), len(all)} {
			if end >= whole {
				want++
			}
		}
		if want == 0 {
			if err == nil {
				t.Errorf("%q: a file without samples", all[:end])
			}
			continue
		}
		if err != nil || len(rec.Series[0].Samples) != want || rec.Series[0].Samples[0].Usage != 12345 || want == 2 && rec.Series[0].Samples[1].Usage != 67890 {
			t.Errorf("%q: %v, %+v", all[:end], err, rec)
		}
	}
}
