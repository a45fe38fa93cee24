package tracefile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
)

// rowsPerGroup bounds the memory that a Parquet writer needs: about 20 MiB.
const rowsPerGroup = 1 << 17

// startKey is the metadata key for the start of the recording.
const startKey = "pinfold.start"

// parquetWriter collects the rows of a row group, sorts them and writes them.
type parquetWriter struct {
	header  Header
	w       *parquet.GenericWriter[record]
	pending []record
}

func newParquetWriter(w io.Writer, h Header) *parquetWriter {
	return &parquetWriter{header: h, w: parquet.NewGenericWriter[record](w,
		parquet.Compression(&zstd.Codec{}),
		parquet.KeyValueMetadata(startKey, h.Start.UTC().Format(time.RFC3339Nano)),
	)}
}

func (p *parquetWriter) Write(r *Row) error {
	p.pending = append(p.pending, toRecord(p.header, r))
	if len(p.pending) < rowsPerGroup {
		return nil
	}
	return p.flush()
}

// flush writes the pending rows as a row group. Rows of one cgroup are already in the order of
// time.
func (p *parquetWriter) flush() error {
	slices.SortStableFunc(p.pending, func(a, b record) int { return strings.Compare(a.Group, b.Group) })
	if _, err := p.w.Write(p.pending); err != nil {
		return fmt.Errorf("write Parquet: %w", err)
	}
	if err := p.w.Flush(); err != nil {
		return fmt.Errorf("write Parquet: %w", err)
	}
	p.pending = p.pending[:0]
	return nil
}

func (p *parquetWriter) Close() error {
	if err := p.flush(); err != nil {
		return err
	}
	if err := p.w.Close(); err != nil {
		return fmt.Errorf("write Parquet: %w", err)
	}
	return nil
}

// parquetReader reads a Parquet file row by row.
type parquetReader struct {
	header Header
	r      *parquet.GenericReader[record]
	rows   []record // read, but not yet returned
	buffer []record
	done   int64 // rows returned
}

func newParquetReader(f *os.File) (p *parquetReader, err error) {
	defer recovered(&err)
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	guard := &parquetGuard{in: f, size: info.Size()}
	if err := guard.checkFooter(); err != nil {
		return nil, fmt.Errorf("not a complete Parquet file: %w", err)
	}
	file, err := parquet.OpenFile(f, info.Size(), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, fmt.Errorf("not a complete Parquet file: %w", err)
	}
	if err := checkColumns(file.Schema()); err != nil {
		return nil, err
	}
	if err := guard.checkPages(file); err != nil {
		return nil, fmt.Errorf("the Parquet file is damaged, or not a recording: %w", err)
	}
	p = &parquetReader{r: parquet.NewGenericReader[record](file), buffer: make([]record, 1024)}
	if err := p.fill(); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, ErrEmpty
		}
		return nil, err
	}
	p.header = p.rows[0].headerOf()
	if text, ok := file.Lookup(startKey); ok {
		if p.header.Start, err = time.Parse(time.RFC3339Nano, text); err != nil {
			return nil, fmt.Errorf("metadata %s: %w", startKey, err)
		}
	}
	return p, nil
}

// checkColumns returns an error if a required column is missing or a known one has the wrong type.
func checkColumns(schema *parquet.Schema) error {
	for _, name := range required() {
		if _, ok := schema.Lookup(name); !ok {
			return fmt.Errorf("no column %q: not a recording", name)
		}
	}
	for _, field := range parquet.SchemaOf(record{}).Fields() {
		column, ok := schema.Lookup(field.Name())
		if !ok {
			continue
		}
		want, got := field.Type(), column.Node.Type()
		if got.Kind() != want.Kind() || column.Node.Repeated() || field.Name() == timeColumn && got.String() != want.String() {
			return fmt.Errorf("column %q is of type %v, want %v", field.Name(), got, want)
		}
	}
	return nil
}

// fill reads the next rows; io.EOF when there are none.
func (p *parquetReader) fill() error {
	n, err := p.r.Read(p.buffer)
	p.rows = p.buffer[:n]
	switch {
	case n > 0:
		return nil // the next call returns the error again
	case err == nil:
		return io.ErrNoProgress
	default:
		return err
	}
}

func (p *parquetReader) Header() Header { return p.header }

func (p *parquetReader) Next() (r *Row, err error) {
	defer recovered(&err)
	if len(p.rows) == 0 {
		if err := p.fill(); err != nil {
			return nil, err
		}
	}
	rec := &p.rows[0]
	p.rows = p.rows[1:]
	p.done++
	if r, err = rec.row(p.header.Start.UnixNano()); err != nil {
		return nil, fmt.Errorf("row %d: %w", p.done, err)
	}
	return r, nil
}

// recovered turns a panic into an error. The library panics on some damaged files.
func recovered(err *error) {
	if problem := recover(); problem != nil {
		*err = fmt.Errorf("the Parquet file is damaged: %v", problem)
	}
}
