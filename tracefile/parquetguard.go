package tracefile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// Limits for the memory and the rows of a Parquet file: a constant plus an amount per byte of the
// file. Recordings stay far below them.
const (
	parquetMemory        = 32 << 20
	parquetMemoryPerByte = 64
	parquetRows          = 1 << 17
	parquetRowsPerByte   = 16
	maxParquetPage       = 16 << 20
	maxPageHeader        = 256 << 10
	parquetEnd           = 8 // the length of the footer, and "PAR1"
)

// parquetGuard checks a Parquet file before the library reads it. The library (parquet-go 0.32)
// decodes Thrift, plain values and the blocks of delta encodings safely, and the guard uses it for
// the first two. But it does not limit decompressed sizes, and it allocates memory for up to 2^31
// values according to a count in the file, before it reads them: 16 GiB for a page of 9 bytes with
// delta-encoded numbers, and 8 GiB for a run of references to a dictionary. So the guard
// decompresses each page itself and compares the counts in it with the number of rows.
type parquetGuard struct {
	in     io.ReaderAt
	size   int64
	zstd   *zstd.Decoder // nil until needed
	brotli brotli.Reader
}

// checkFooter checks all lengths in the footer, including its own.
func (g *parquetGuard) checkFooter() error {
	var end [parquetEnd]byte
	if g.size < int64(2*len(end)) {
		return errors.New("it is too short")
	}
	if _, err := g.in.ReadAt(end[:], g.size-parquetEnd); err != nil {
		return err
	}
	if string(end[4:]) != "PAR1" {
		return errors.New("its end is missing: the recording was cut short, or the file is still being written")
	}
	length := int64(binary.LittleEndian.Uint32(end[:]))
	if length > g.size-parquetEnd {
		return fmt.Errorf("its footer cannot have %d bytes", length)
	}
	footer := make([]byte, length)
	if _, err := g.in.ReadAt(footer, g.size-parquetEnd-length); err != nil {
		return err
	}
	// A struct without fields makes the decoder skip everything, and so allocate nothing.
	if _, err := decodeThrift(footer, &struct{}{}); err != nil {
		return fmt.Errorf("its footer: %w", err)
	}
	return nil
}

// checkPages checks all pages of the columns that are read.
func (g *parquetGuard) checkPages(file *parquet.File, columns []*parquetColumn) error {
	rows, maxRows := int64(0), parquetRows+parquetRowsPerByte*g.size
	for i, group := range file.Metadata().RowGroups {
		if rows += group.NumRows; group.NumRows < 0 || rows > maxRows {
			return fmt.Errorf("%d bytes cannot hold %d rows", g.size, rows)
		}
		memory := int64(0)
		for _, column := range columns {
			name := column.name
			leaf, _ := file.Schema().Lookup(name)
			if leaf.ColumnIndex >= len(group.Columns) {
				return fmt.Errorf("row group %d has no column %q", i, name)
			}
			c := chunk{kind: leaf.Node.Type().Kind(), optional: leaf.Node.Optional(), rows: group.NumRows,
				meta: &group.Columns[leaf.ColumnIndex].MetaData}
			largest, err := g.checkChunk(&c)
			column.booleans = append(column.booleans, c.booleans...)
			if err != nil {
				return fmt.Errorf("row group %d, column %q: %w", i, name, err)
			}
			if memory += largest; memory > parquetMemory+parquetMemoryPerByte*g.size {
				return fmt.Errorf("row group %d needs %d MiB of memory, too much for a file of %d bytes", i, memory>>20, g.size)
			}
		}
	}
	return nil
}

// chunk is a column of a row group.
type chunk struct {
	kind     parquet.Kind
	optional bool
	rows     int64
	meta     *format.ColumnMetaData
	booleans []booleanPage // if the kind is BOOLEAN, those of its pages that have values
}

// checkChunk checks the pages of a chunk and returns the size of the largest.
func (g *parquetGuard) checkChunk(c *chunk) (largest int64, err error) {
	at := c.meta.DataPageOffset
	if c.meta.DictionaryPageOffset != 0 {
		at = c.meta.DictionaryPageOffset
	}
	length := c.meta.TotalCompressedSize
	if at < 0 || length < 0 || at > g.size || length > g.size-at {
		return 0, errors.New("it lies outside of the file")
	}
	values := int64(0)
	for end := at + length; at < end; {
		b := make([]byte, min(end-at, maxPageHeader))
		if _, err := g.in.ReadAt(b, at); err != nil {
			return 0, err
		}
		h := &format.PageHeader{}
		size, err := decodeThrift(b, h)
		if err != nil {
			return 0, fmt.Errorf("the header of a page: %w", err)
		}
		at += int64(size)
		if int64(h.CompressedPageSize) > end-at || h.CompressedPageSize < 0 {
			return 0, errors.New("a page is longer than its column")
		}
		if h.UncompressedPageSize < 0 || h.UncompressedPageSize > maxParquetPage {
			return 0, fmt.Errorf("a page has %d bytes, more than the limit of %d MiB: write smaller pages, in pyarrow with data_page_size=2**20", h.UncompressedPageSize, maxParquetPage>>20)
		}
		b = make([]byte, h.CompressedPageSize)
		if _, err := g.in.ReadAt(b, at); err != nil {
			return 0, err
		}
		n, err := g.checkPage(c, h, b)
		if err != nil {
			return 0, err
		}
		if values += n; values > c.rows {
			return 0, errors.New("its pages have more values than the row group has rows")
		}
		largest = max(largest, int64(h.UncompressedPageSize))
		at += int64(h.CompressedPageSize)
	}
	if values != c.rows {
		return 0, fmt.Errorf("its pages have %d values, and the row group has %d rows", values, c.rows)
	}
	return largest, nil
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
