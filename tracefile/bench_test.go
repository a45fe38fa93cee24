package tracefile

import (
	"io"
	"path/filepath"
	"testing"

	"pinfold.dev/pinfold/test/must"
)

// BenchmarkWrite writes samples of 100 groups.
func BenchmarkWrite(b *testing.B) {
	var groups []string
	for i := range 100 {
		groups = append(groups, "/kubepods/burstable/pod"+string(rune('a'+i/26))+string(rune('a'+i%26)))
	}
	rec := steady(groups, 100)
	rows := inTime(rec)
	journal := must.Get(createJournal(filepath.Join(b.TempDir(), "j"), header(rec)))(b)
	text := must.Get(newCSVWriter(io.Discard, header(rec)))(b)
	for name, w := range map[string]writer{"journal": journal, "parquet": newParquetWriter(io.Discard, header(rec)), "csv": text} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				must.Do(b, w.Write(rows[i]))
				i = (i + 1) % len(rows)
			}
		})
	}
}

// BenchmarkRead reads recordings of 100,000 samples; the time is per recording.
func BenchmarkRead(b *testing.B) {
	rec := steady([]string{"/a", "/b"}, 50_000)
	for _, ending := range []string{".parquet", ".csv"} {
		b.Run(ending, func(b *testing.B) {
			name := filepath.Join(b.TempDir(), "a"+ending)
			if _, err := Write(Output{Name: name}, header(rec), Rows(rec)); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := Read(name, 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
