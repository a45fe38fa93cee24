package tracefile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// Limits for what is read of a Parquet file. Recordings stay far below them.
const (
	maxGroupBytes   = 64 << 20 // of a row group, decoded
	baseRows        = 1 << 17  // of a file, and as many more for each of its bytes:
	rowsPerFileByte = 16
	maxPageHeader   = 256 << 10
	parquetEnd      = 8 // the length of the footer, and "PAR1"
)

// runSlack is how many more values than the page a run of bit-packed values may have: they come in
// eights.
const runSlack = 8

var errCount = errors.New("a page has another number of values than its header says")

// parquetGuard checks a Parquet file before the library reads it. The library (parquet-go 0.32)
// decodes Thrift, plain values and the blocks of delta encodings safely, and the guard uses it for
// the first two. But it does not limit decompressed sizes, and it allocates memory for up to 2^31
// values according to a count in the file, before it reads them: 16 GiB for a page of 9 bytes with
// delta-encoded numbers, and 8 GiB for a run of references to a dictionary. So the guard
// decompresses each page itself and compares the counts in it with the number of rows. It knows the
// pages that tableWriter writes, and rejects others.
type parquetGuard struct {
	in   io.ReaderAt
	size int64
	zstd *zstd.Decoder
}

// newParquetGuard checks the footer of a file, and its length.
func newParquetGuard(in io.ReaderAt, size int64) (*parquetGuard, error) {
	var end [parquetEnd]byte
	if size < int64(2*len(end)) {
		return nil, errors.New("it is too short")
	}
	if _, err := in.ReadAt(end[:], size-parquetEnd); err != nil {
		return nil, err
	}
	if string(end[4:]) != "PAR1" {
		return nil, errors.New("its end is missing: the recording was cut short, or the file is still being written")
	}
	length := int64(binary.LittleEndian.Uint32(end[:]))
	if length > size-parquetEnd {
		return nil, fmt.Errorf("its footer cannot have %d bytes", length)
	}
	footer := make([]byte, length)
	if _, err := in.ReadAt(footer, size-parquetEnd-length); err != nil {
		return nil, err
	}
	// A struct without fields makes the decoder skip everything, and so allocate nothing.
	if _, err := decodeThrift(footer, &struct{}{}); err != nil {
		return nil, fmt.Errorf("its footer: %w", err)
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true))
	return &parquetGuard{in, size, decoder}, err
}

// checkPages checks all pages of a file.
func (g *parquetGuard) checkPages(file *parquet.File) error {
	rows, maxRows := int64(0), baseRows+rowsPerFileByte*g.size
	for i, group := range file.Metadata().RowGroups {
		if rows += group.NumRows; group.NumRows < 0 || rows > maxRows {
			return fmt.Errorf("%d bytes cannot hold %d rows", g.size, rows)
		}
		left := int64(maxGroupBytes)
		for j, field := range file.Schema().Fields() {
			if j >= len(group.Columns) {
				return fmt.Errorf("row group %d has no column %q", i, field.Name())
			}
			c := chunk{&group.Columns[j].MetaData, field.Type().Kind(), group.NumRows}
			if err := g.checkChunk(&c, &left); err != nil {
				return fmt.Errorf("row group %d, column %q: %w", i, field.Name(), err)
			}
		}
	}
	return nil
}

// chunk is a column of a row group.
type chunk struct {
	*format.ColumnMetaData
	kind parquet.Kind
	rows int64
}

// checkChunk checks the pages of a chunk, and subtracts their decoded size from what is left of the
// limit.
func (g *parquetGuard) checkChunk(c *chunk, left *int64) error {
	at := c.DataPageOffset
	if c.DictionaryPageOffset != 0 {
		at = c.DictionaryPageOffset
	}
	length := c.TotalCompressedSize
	if at < 0 || length < 0 || at > g.size || length > g.size-at {
		return errors.New("it lies outside of the file")
	}
	values := int64(0)
	for end := at + length; at < end; {
		b := make([]byte, min(end-at, maxPageHeader))
		if _, err := g.in.ReadAt(b, at); err != nil {
			return err
		}
		h := &format.PageHeader{}
		size, err := decodeThrift(b, h)
		if err != nil {
			return fmt.Errorf("the header of a page: %w", err)
		}
		at += int64(size)
		if int64(h.CompressedPageSize) > end-at || h.CompressedPageSize < 0 {
			return errors.New("a page is longer than its column")
		}
		if *left -= int64(h.UncompressedPageSize); h.UncompressedPageSize < 0 || *left < 0 {
			return fmt.Errorf("the row group takes more than %d MiB", maxGroupBytes>>20)
		}
		b = make([]byte, h.CompressedPageSize)
		if _, err := g.in.ReadAt(b, at); err != nil {
			return err
		}
		n, err := g.checkPage(c, h, b)
		if values += n; err == nil && values > c.rows {
			err = errCount
		}
		if err != nil {
			return err
		}
		at += int64(h.CompressedPageSize)
	}
	if values != c.rows {
		return fmt.Errorf("its pages have %d values, and the row group has %d rows", values, c.rows)
	}
	return nil
}

// checkPage checks the content of a page and returns the number of its values, 0 for a dictionary.
func (g *parquetGuard) checkPage(c *chunk, h *format.PageHeader, b []byte) (int64, error) {
	v, size := &h.DataPageHeaderV2.V, int(h.UncompressedPageSize)
	switch {
	case c.Codec != format.Zstd:
		return 0, fmt.Errorf("a page is compressed with %v", c.Codec)
	case h.Type == format.DictionaryPage && h.DictionaryPageHeader.Valid:
		b, err := g.decompress(b, size)
		if err != nil || c.kind != parquet.ByteArray {
			return 0, err
		}
		return 0, checkTexts(b)
	case h.Type != format.DataPageV2 || !h.DataPageHeaderV2.Valid || v.IsCompressed.Valid && !v.IsCompressed.V:
		return 0, fmt.Errorf("a page has type %v", h.Type)
	}
	n, levels := int64(v.NumValues), int(v.DefinitionLevelsByteLength)
	if levels < 0 || levels > min(len(b), size) || v.RepetitionLevelsByteLength != 0 || v.NumNulls < 0 || int64(v.NumNulls) > n {
		return 0, errCount
	}
	if err := checkRuns(b[:levels], 1, n); err != nil {
		return 0, err
	}
	b, err := g.decompress(b[levels:], size-levels)
	if err != nil {
		return 0, err
	}
	switch v.Encoding {
	case format.Plain: // needs no more memory than its length
		return n, nil
	case format.RLEDictionary:
		if len(b) == 0 || b[0] > 32 {
			return 0, errCount
		}
		return n, checkRuns(b[1:], uint64(b[0]), n)
	case format.DeltaBinaryPacked:
		return n, checkDelta(b, n)
	}
	return 0, fmt.Errorf("values are encoded as %v", v.Encoding)
}

// decompress decompresses a page to the size in its header. More is an error.
func (g *parquetGuard) decompress(b []byte, size int) ([]byte, error) {
	b, err := g.zstd.DecodeAll(b, make([]byte, 0, size))
	if err == nil && len(b) != size {
		err = errors.New("a page has another size than its header says")
	}
	return b, err
}

// checkTexts limits the texts of a dictionary, because each row may refer to the same one.
func checkTexts(b []byte) error {
	_, ends, err := parquet.Plain.DecodeByteArray(nil, b, nil)
	for i := 1; i < len(ends); i++ {
		if ends[i]-ends[i-1] > maxText {
			return fmt.Errorf("a text has more than %d bytes", maxText)
		}
	}
	return err
}

// checkRuns adds up the lengths of runs, which repeat a value or are bit-packed (Encodings.md of
// Apache Parquet, "Run Length Encoding / Bit-Packing Hybrid").
func checkRuns(b []byte, bits uint64, n int64) error {
	total, maxTotal := uint64(0), uint64(n)+runSlack
	for len(b) > 0 {
		head, size := binary.Uvarint(b)
		if size <= 0 {
			return errCount
		}
		b = b[size:]
		count, length := head>>1, (bits+7)/8
		if count == 0 {
			continue
		}
		if count > maxTotal {
			return errCount
		}
		if head&1 == 1 { // bit-packed, in groups of eight
			count, length = 8*count, count*bits
		}
		if total += count; total > maxTotal || length > uint64(len(b)) {
			return errCount
		}
		b = b[length:]
	}
	return nil
}

// checkDelta checks the number of values in a delta encoding, which follows the sizes of blocks
// ("Delta Encoding").
func checkDelta(b []byte, n int64) error {
	var count uint64
	for range 3 { // values in a block, parts of a block, values
		var size int
		if count, size = binary.Uvarint(b); size <= 0 {
			return errCount
		}
		b = b[size:]
	}
	if count > uint64(n) {
		return errCount
	}
	return nil
}

// decodeThrift decodes the struct with which b begins and returns its length.
func decodeThrift(b []byte, v any) (int, error) {
	r := &thriftReader{BytesReader: new(thrift.CompactProtocol).NewReaderFromBytes(b), open: []int32{1}}
	err := thrift.NewDecoder(r).Decode(v)
	return r.BytesRead(), err
}

// maxThriftDepth exceeds the depth of all metadata in Parquet files.
const maxThriftDepth = 32

var (
	errThriftDepth = fmt.Errorf("it is nested more than %d levels deep", maxThriftDepth)
	errThriftType  = errors.New("it contains a set, a map or a list of lists, which Parquet does not use")
)

// thriftReader reads Thrift's compact protocol and rejects deep nesting. The library decodes nested
// structs recursively, and a stack overflow ends the process.
type thriftReader struct {
	thrift.BytesReader
	open []int32 // by level: how many structs of the list there, or 1, have not ended
}

func (r *thriftReader) ReadField() (thrift.Field, error) {
	f, err := r.BytesReader.ReadField()
	switch last := len(r.open) - 1; {
	case err != nil:
	case f.Type == thrift.STRUCT:
		err = r.begin(1)
	case f.Type == thrift.STOP:
		if r.open[last]--; r.open[last] == 0 {
			r.open = r.open[:last]
		}
	}
	return f, err
}

func (r *thriftReader) ReadList() (thrift.List, error) {
	l, err := r.BytesReader.ReadList()
	switch {
	case err != nil:
	case l.Type == thrift.LIST, l.Type == thrift.SET, l.Type == thrift.MAP:
		err = errThriftType
	case l.Type == thrift.STRUCT && l.Size > 0:
		err = r.begin(l.Size)
	}
	return l, err
}

func (r *thriftReader) begin(structs int32) error {
	if r.open = append(r.open, structs); len(r.open) > maxThriftDepth {
		return errThriftDepth
	}
	return nil
}

func (r *thriftReader) ReadSet() (thrift.Set, error) { return thrift.Set{}, errThriftType }
func (r *thriftReader) ReadMap() (thrift.Map, error) { return thrift.Map{}, errThriftType }

// Discard skips bytes, as the library's own reader does.
func (r *thriftReader) Discard(n int) (int, error) {
	return r.BytesReader.(interface{ Discard(n int) (int, error) }).Discard(n)
}
