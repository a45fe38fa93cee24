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

// parquetWriter writes rows of a recording.
type parquetWriter struct {
	header Header
	tableWriter[record]
}

func newParquetWriter(w io.Writer, h Header) *parquetWriter {
	return &parquetWriter{h, newTableWriter(w, h, func(a, b record) int { return strings.Compare(a.Group, b.Group) })}
}

func (p *parquetWriter) Write(r *Row) error { return p.write(toRecord(p.header, r)) }

// tableWriter collects the rows of a row group, sorts them and writes them.
type tableWriter[R any] struct {
	w       *parquet.GenericWriter[R]
	order   func(a, b R) int
	pending []R
}

func newTableWriter[R any](w io.Writer, h Header, order func(a, b R) int) tableWriter[R] {
	return tableWriter[R]{order: order, w: parquet.NewGenericWriter[R](w,
		parquet.Compression(&zstd.Codec{}),
		parquet.KeyValueMetadata(startKey, h.Start.UTC().Format(time.RFC3339Nano)),
	)}
}

func (p *tableWriter[R]) write(r R) error {
	p.pending = append(p.pending, r)
	if len(p.pending) < rowsPerGroup {
		return nil
	}
	return p.flush()
}

// flush writes the pending rows as a row group. Rows that are equal in the table's order keep theirs.
func (p *tableWriter[R]) flush() error {
	slices.SortStableFunc(p.pending, p.order)
	if _, err := p.w.Write(p.pending); err != nil {
		return fmt.Errorf("write Parquet: %w", err)
	}
	if err := p.w.Flush(); err != nil {
		return fmt.Errorf("write Parquet: %w", err)
	}
	p.pending = p.pending[:0]
	return nil
}

// Close writes what is pending and the end of the file.
func (p *tableWriter[R]) Close() error {
	if err := p.flush(); err != nil {
		return err
	}
	if err := p.w.Close(); err != nil {
		return fmt.Errorf("write Parquet: %w", err)
	}
	return nil
}

// parquetReader reads the rows of a recording.
type parquetReader struct {
	*tableReader[record]
	header Header
}

func newParquetReader(f *os.File) (*parquetReader, error) {
	rows, err := openParquet[record](f, required()...)
	if err != nil {
		return nil, err
	}
	first, err := rows.peek()
	if errors.Is(err, io.EOF) {
		return nil, ErrEmpty
	}
	if err != nil {
		return nil, err
	}
	p := &parquetReader{rows, first.headerOf()}
	if !rows.start.IsZero() {
		p.header.Start = rows.start
	}
	return p, nil
}

func (p *parquetReader) Header() Header { return p.header }

func (p *parquetReader) Next() (*Row, error) {
	rec, err := p.next()
	if err != nil {
		return nil, err
	}
	r, err := rec.row(p.header.Start.UnixNano())
	return r, p.at(err)
}

// tableReader reads a Parquet file row by row.
type tableReader[R any] struct {
	start  time.Time // of the recording; zero if the file does not say it
	r      *parquet.GenericReader[R]
	rows   []R // read, but not yet returned
	buffer []R
	done   int64 // rows returned
}

// openParquet opens a file, in which the required columns must be.
func openParquet[R any](f *os.File, required ...string) (p *tableReader[R], err error) {
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
	columns := parquet.SchemaOf(*new(R)).Fields()
	if err := checkColumns(file.Schema(), columns, required); err != nil {
		return nil, err
	}
	if err := guard.checkPages(file, columns); err != nil {
		return nil, fmt.Errorf("the Parquet file is damaged, or not a recording: %w", err)
	}
	p = &tableReader[R]{r: parquet.NewGenericReader[R](file), buffer: make([]R, 1024)}
	if text, ok := file.Lookup(startKey); ok {
		if p.start, err = time.Parse(time.RFC3339Nano, text); err != nil {
			return nil, fmt.Errorf("metadata %s: %w", startKey, err)
		}
	}
	return p, nil
}

// checkColumns returns an error if a required column is missing or one of columns has the wrong type.
func checkColumns(schema *parquet.Schema, columns []parquet.Field, required []string) error {
	for _, name := range required {
		if _, ok := schema.Lookup(name); !ok {
			return fmt.Errorf("no column %q: not a recording", name)
		}
	}
	for _, field := range columns {
		column, ok := schema.Lookup(field.Name())
		if !ok {
			continue
		}
		want, got := field.Type(), column.Node.Type()
		isTime := strings.HasPrefix(want.String(), "TIMESTAMP")
		if got.Kind() != want.Kind() || column.Node.Repeated() || isTime && got.String() != want.String() {
			return fmt.Errorf("column %q is of type %v, want %v", field.Name(), got, want)
		}
	}
	return nil
}

// peek returns the next row and does not consume it. The error is io.EOF when there is none.
func (p *tableReader[R]) peek() (r *R, err error) {
	defer recovered(&err)
	if len(p.rows) > 0 {
		return &p.rows[0], nil
	}
	n, err := p.r.Read(p.buffer)
	p.rows = p.buffer[:n]
	switch {
	case n > 0:
		return &p.rows[0], nil // the next call returns the error again
	case err == nil:
		return nil, io.ErrNoProgress
	default:
		return nil, err
	}
}

// next returns the next row, which is valid until the next call.
func (p *tableReader[R]) next() (*R, error) {
	r, err := p.peek()
	if err != nil {
		return nil, err
	}
	p.rows = p.rows[1:]
	p.done++
	return r, nil
}

// at adds to an error the number of the row that next returned. err may be nil.
func (p *tableReader[R]) at(err error) error {
	if err != nil {
		return fmt.Errorf("row %d: %w", p.done, err)
	}
	return nil
}

// recovered turns a panic into an error. The library panics on some damaged files.
func recovered(err *error) {
	if problem := recover(); problem != nil {
		*err = fmt.Errorf("the Parquet file is damaged: %v", problem)
	}
}
