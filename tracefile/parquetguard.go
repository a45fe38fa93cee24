package tracefile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// What a Parquet file may make of itself in memory: something, however small it is, and so
// much more for each of its bytes. What a machine has measured does not come near that.
const (
	parquetMemory        = 32 << 20
	parquetMemoryPerByte = 64
	parquetRows          = 1 << 17
	parquetRowsPerByte   = 16
	maxParquetPage       = 16 << 20
	maxPageHeader        = 256 << 10
	parquetEnd           = 8 // the footer's length, and "PAR1"
)

// parquetGuard looks through a Parquet file before the library reads it, which makes room
// for as much as lengths and counts in the file say, and as compressed data turns out to be:
// gigabytes, for some files of a kilobyte.
type parquetGuard struct {
	in   io.ReaderAt
	size int64
	unpack
}

// checkFooter looks at the footer's own lengths, before it is decoded.
func (g *parquetGuard) checkFooter() error {
	var end [parquetEnd]byte
	if g.size < int64(2*len(end)) {
		return errors.New("it is too short")
	}
	if _, err := g.in.ReadAt(end[:], g.size-parquetEnd); err != nil {
		return err
	}
	if string(end[4:]) != "PAR1" {
		return errors.New("it has no end: the recording was cut short, or the file is still being written")
	}
	length := int64(binary.LittleEndian.Uint32(end[:]))
	if length > g.size-parquetEnd {
		return fmt.Errorf("its footer cannot have %d bytes", length)
	}
	footer := make([]byte, length)
	if _, err := g.in.ReadAt(footer, g.size-parquetEnd-length); err != nil {
		return err
	}
	if _, err := thriftSize(footer); err != nil {
		return fmt.Errorf("its footer: %w", err)
	}
	return nil
}

// checkPages looks at all pages of the columns that are ours.
func (g *parquetGuard) checkPages(file *parquet.File) error {
	rows, most := int64(0), parquetRows+parquetRowsPerByte*g.size
	for i, group := range file.Metadata().RowGroups {
		if rows += group.NumRows; group.NumRows < 0 || rows > most {
			return fmt.Errorf("%d rows cannot be in %d bytes", rows, g.size)
		}
		memory := int64(0)
		for _, name := range columnNames() {
			leaf, ok := file.Schema().Lookup(name)
			if !ok {
				continue
			}
			if leaf.ColumnIndex >= len(group.Columns) {
				return fmt.Errorf("row group %d has no column %q", i, name)
			}
			c := chunk{name: name, kind: leaf.Node.Type().Kind(), optional: leaf.Node.Optional(),
				rows: group.NumRows, meta: &group.Columns[leaf.ColumnIndex].MetaData}
			largest, err := g.checkChunk(&c)
			if err != nil {
				return fmt.Errorf("row group %d, column %q: %w", i, name, err)
			}
			if memory += largest; memory > parquetMemory+parquetMemoryPerByte*g.size {
				return fmt.Errorf("row group %d takes %d MiB of memory, in a file of %d bytes", i, memory>>20, g.size)
			}
		}
	}
	return nil
}

// columnNames are the columns that are read.
func columnNames() []string {
	var names []string
	for _, f := range fields() {
		names = append(names, f.name)
	}
	return names
}

// chunk is a column of a row group.
type chunk struct {
	name     string
	kind     parquet.Kind
	optional bool
	rows     int64
	meta     *format.ColumnMetaData
}

// checkChunk looks at the pages of a chunk, and returns the size of the largest.
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
		h, size, err := g.pageHeader(at, end)
		if err != nil {
			return 0, err
		}
		if int64(h.CompressedPageSize) > end-at-size || h.CompressedPageSize < 0 {
			return 0, errors.New("a page is longer than its column")
		}
		if h.UncompressedPageSize < 0 || h.UncompressedPageSize > maxParquetPage {
			return 0, fmt.Errorf("a page has %d bytes, and at most %d MiB are read: write smaller pages", h.UncompressedPageSize, maxParquetPage>>20)
		}
		n, err := g.checkPage(c, h, at+size)
		if err != nil {
			return 0, err
		}
		if values += n; values > c.rows {
			return 0, errors.New("its pages have more values than the row group has rows")
		}
		largest = max(largest, int64(h.UncompressedPageSize))
		at += size + int64(h.CompressedPageSize)
	}
	if values != c.rows {
		return 0, fmt.Errorf("its pages have %d values, and the row group has %d rows", values, c.rows)
	}
	return largest, nil
}

// pageHeader decodes the header of a page, and returns how long it is.
func (g *parquetGuard) pageHeader(at, end int64) (*format.PageHeader, int64, error) {
	b := make([]byte, min(end-at, maxPageHeader))
	if _, err := g.in.ReadAt(b, at); err != nil {
		return nil, 0, err
	}
	size, err := thriftSize(b)
	if err != nil {
		return nil, 0, fmt.Errorf("the header of a page: %w", err)
	}
	h := &format.PageHeader{}
	if err := thrift.Unmarshal(new(thrift.CompactProtocol), b[:size], h); err != nil {
		return nil, 0, fmt.Errorf("the header of a page: %w", err)
	}
	return h, int64(size), nil
}
