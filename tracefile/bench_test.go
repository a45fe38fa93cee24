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
