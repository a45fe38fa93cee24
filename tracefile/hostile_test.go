package tracefile

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/test/must"
)

// maxMemory is the most that reading a small file may allocate in total, in bytes.
const maxMemory = 64 << 20

// hostile is a small Parquet file with one manipulation.
type hostile struct {
	column string              // the column whose only page is replaced, or ""
	header func(h *fakeHeader) // changes the header of that page
	footer func(m *format.FileMetaData)
	finish func(file []byte) []byte
}

// fakeHeader is the header of a data page of version 2, and its content.
type fakeHeader struct {
	format.PageHeader
	codec      format.CompressionCodec
	levels     []byte
	content    []byte // before it is compressed
	compressed []byte // instead of what content is compressed to
	dictionary string // the only text of the column's dictionary, or ""
}

const gibi = 1 << 30

func compressed(t testing.TB, content []byte) []byte {
	return must.Get(zstd.NewWriter(nil))(t).EncodeAll(content, nil)
}

func hostiles(t *testing.T) map[string]hostile {
	zeros := compressed(t, make([]byte, 256<<20))
	values := func(encoding format.Encoding, content []byte) func(*fakeHeader) {
		return func(h *fakeHeader) {
			h.DataPageHeaderV2.V.Encoding, h.content = encoding, content
		}
	}
	varints := func(b []byte, numbers ...uint64) []byte {
		for _, n := range numbers {
			b = binary.AppendUvarint(b, n)
		}
		return b
	}
	return map[string]hostile{
		"zstd":           {column: "usage_ns", header: func(h *fakeHeader) { h.compressed, h.UncompressedPageSize = zeros, 24 }},
		"zstd, declared": {column: "usage_ns", header: func(h *fakeHeader) { h.compressed, h.UncompressedPageSize = zeros, 256<<20 }},
		"another codec": {column: "usage_ns", header: func(h *fakeHeader) {
			h.codec, h.compressed = format.Snappy, binary.AppendUvarint(nil, 2*gibi)
		}},
		"not compressed": {column: "usage_ns", header: func(h *fakeHeader) {
			values(format.DeltaBinaryPacked, varints(nil, 128, 4, gibi, 0))(h)
			h.DataPageHeaderV2.V.IsCompressed = thrift.Null[bool]{Valid: true}
			h.compressed, h.UncompressedPageSize = h.content, int32(len(h.content))
		}},
		"version 1": {column: "usage_ns", header: func(h *fakeHeader) {
			h.Type, h.DataPageHeader.Valid, h.DataPageHeader.V.NumValues = format.DataPage, true, 3
		}},
		"sizes": {column: "usage_ns", header: func(h *fakeHeader) {
			h.UncompressedPageSize, h.CompressedPageSize = 2*gibi-1, 2*gibi-1
		}},
		"count":       {column: "usage_ns", header: func(h *fakeHeader) { h.DataPageHeaderV2.V.NumValues = gibi }},
		"differences": {column: "usage_ns", header: values(format.DeltaBinaryPacked, varints(nil, 128, 4, gibi, 0))},
		"block":       {column: "usage_ns", header: values(format.DeltaBinaryPacked, append(varints(nil, 1<<30, 1<<23, 3, 0), 0, 64, 64, 64))},
		"texts":       {column: "group", header: values(format.DeltaLengthByteArray, varints(nil, 128, 4, gibi, 0))},
		"flags":       {column: "late", header: values(format.RLE, varints([]byte{6, 0, 0, 0}, gibi<<1, 1))},
		"levels":      {column: "name", header: func(h *fakeHeader) { h.levels = varints(nil, gibi<<1, 1) }},
		"references": {column: "group", header: func(h *fakeHeader) {
			h.dictionary = "/a"
			values(format.RLEDictionary, varints([]byte{1}, gibi<<1, 0))(h)
		}},
		"long dictionary text": {column: "group", header: func(h *fakeHeader) {
			h.dictionary = strings.Repeat("a", maxText+1)
			values(format.RLEDictionary, []byte{1, 6, 0})(h)
		}},
		"rows": {footer: func(m *format.FileMetaData) {
			m.NumRows, m.RowGroups[0].NumRows = 1<<40, 1<<40
		}},
		"column size": {footer: func(m *format.FileMetaData) {
			m.RowGroups[0].Columns[4].MetaData.TotalCompressedSize = 1 << 40
		}},
		"columns":        {footer: func(m *format.FileMetaData) { m.RowGroups[0].Columns = m.RowGroups[0].Columns[:3] }},
		"footer":         {finish: func(b []byte) []byte { return append(b[:len(b)-8], "\xf0\xff\xff\xffPAR1"...) }},
		"list":           {finish: func([]byte) []byte { return fileOf("\x29\xfc\xff\xff\xff\xff\x07") }},
		"nested":         {finish: func([]byte) []byte { return fileOf(strings.Repeat("\x1c", 4000)) }},
		"long text":      {finish: func([]byte) []byte { return fileOf("\x68\xff\xff\xff\xff\x07") }},
		"no content":     {finish: func(b []byte) []byte { return b[:8] }},
		"cut off":        {finish: func(b []byte) []byte { return b[:len(b)/2] }},
		"without an end": {finish: func(b []byte) []byte { return b[:len(b)-1] }},
	}
}

// fileOf returns a file that consists of a footer only.
func fileOf(footer string) []byte {
	b := append([]byte("PAR1"), footer...)
	return append(binary.LittleEndian.AppendUint32(b, uint32(len(footer))), "PAR1"...)
}

// write writes a file of three rows with the manipulation.
func (x *hostile) write(t testing.TB, name string) {
	var b bytes.Buffer
	w := newParquetWriter(&b, Header{Start: time.Unix(0, 0), Interval: 1})
	for i := range time.Duration(3) {
		must.Do(t, w.Write(&Row{Group: "/a", Sample: trace.Sample{At: i + 1, Interval: 1}}))
	}
	must.Do(t, w.Close())
	file := b.Bytes()
	if x.column != "" || x.footer != nil {
		file = x.change(t, file)
	}
	if x.finish != nil {
		file = x.finish(file)
	}
	must.Do(t, os.WriteFile(name, file, 0o600))
}

// change appends the new page and a new footer to a file.
func (x *hostile) change(t testing.TB, file []byte) []byte {
	f := must.Get(parquet.OpenFile(bytes.NewReader(file), int64(len(file))))(t)
	meta := f.Metadata()
	file = slices.Clone(file[:len(file)-8-int(binary.LittleEndian.Uint32(file[len(file)-8:]))])
	if x.column != "" {
		leaf, _ := f.Schema().Lookup(x.column)
		chunk := &meta.RowGroups[0].Columns[leaf.ColumnIndex].MetaData
		h := &fakeHeader{codec: format.Zstd, content: make([]byte, 24)}
		h.Type = format.DataPageV2
		h.DataPageHeaderV2.Valid, h.DataPageHeaderV2.V.NumValues, h.DataPageHeaderV2.V.NumRows = true, 3, 3
		x.header(h)
		if h.compressed == nil {
			h.compressed = compressed(t, h.content)
			h.UncompressedPageSize = cmp.Or(h.UncompressedPageSize, int32(len(h.levels)+len(h.content)))
		}
		h.DataPageHeaderV2.V.DefinitionLevelsByteLength = int32(len(h.levels))
		h.CompressedPageSize = cmp.Or(h.CompressedPageSize, int32(len(h.levels)+len(h.compressed)))
		start := int64(len(file))
		chunk.Codec, chunk.DictionaryPageOffset = h.codec, 0
		if h.dictionary != "" {
			text := append(binary.LittleEndian.AppendUint32(nil, uint32(len(h.dictionary))), h.dictionary...)
			packed := compressed(t, text)
			dictionary := marshal(t, &format.PageHeader{Type: format.DictionaryPage, UncompressedPageSize: int32(len(text)), CompressedPageSize: int32(len(packed)),
				DictionaryPageHeader: thrift.Null[format.DictionaryPageHeader]{Valid: true, V: format.DictionaryPageHeader{NumValues: 1}}})
			chunk.DictionaryPageOffset = start
			file = slices.Concat(file, dictionary, packed)
		}
		chunk.DataPageOffset = int64(len(file))
		file = slices.Concat(file, marshal(t, &h.PageHeader), h.levels, h.compressed)
		chunk.TotalCompressedSize = int64(len(file)) - start
	}
	if x.footer != nil {
		x.footer(meta)
	}
	footer := marshal(t, meta)
	file = append(file, footer...)
	return append(binary.LittleEndian.AppendUint32(file, uint32(len(footer))), "PAR1"...)
}

func marshal(t testing.TB, v any) []byte {
	return must.Get(thrift.Marshal(new(thrift.CompactProtocol), v))(t)
}

// allocated returns how many bytes f allocates in total.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestHostileParquet rejects files of a few kilobytes that would need gigabytes of memory.
func TestHostileParquet(t *testing.T) {
	for name, x := range hostiles(t) {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "x.parquet")
			x.write(t, file)
			var err error
			used := allocated(func() { _, _, err = Read(file, 0) })
			if err == nil {
				t.Error("no error")
			}
			if used > maxMemory {
				t.Errorf("reading it allocated %d MiB: %v", used>>20, err)
			}
		})
	}
}

// TestHarmlessParquet reads the file from which the hostile ones are made, also with valid pages of
// the same kinds.
func TestHarmlessParquet(t *testing.T) {
	for name, x := range map[string]hostile{
		"unchanged": {},
		"a page":    {column: "usage_ns", header: func(*fakeHeader) {}},
		"references": {column: "group", header: func(h *fakeHeader) {
			h.dictionary, h.DataPageHeaderV2.V.Encoding, h.content = "/a", format.RLEDictionary, []byte{1, 6, 0}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "x.parquet")
			x.write(t, file)
			var rec *trace.Recording
			var err error
			used := allocated(func() { rec, _, err = Read(file, 0) })
			if err != nil {
				t.Fatal(err)
			}
			if used > maxMemory {
				t.Errorf("reading it allocated %d MiB", used>>20)
			}
			if len(rec.Series) != 1 || len(rec.Series[0].Samples) != 3 || rec.Series[0].Group != "/a" {
				t.Errorf("read %+v", rec)
			}
		})
	}
}
