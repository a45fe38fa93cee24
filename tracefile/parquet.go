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

// startKey is the metadata key for the start of the recording. Other programs may copy it to the
// files that they write, but name a library of their own.
const (
	startKey = "pinfold.start"
	library  = "github.com/parquet-go/parquet-go"
)

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
		parquet.DefaultEncodingFor(parquet.Int32, &parquet.DeltaBinaryPacked),
		parquet.DefaultEncodingFor(parquet.Int64, &parquet.DeltaBinaryPacked),
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

// flush writes the pending rows as a row group. Rows that are equal in the table's order keep
// theirs.
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
	rows, err := openParquet[record](f)
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
	p.header.Start = rows.start
	return p, nil
}

func (p *parquetReader) Header() Header { return p.header }

func (p *parquetReader) Resolution() time.Duration { return 0 } // the times are exact

func (p *parquetReader) Next() (*Row, error) {
	rec, err := p.next()
	if err != nil {
		return nil, err
	}
	r, err := rec.row(p.header.Start.UnixNano())
	return r, p.at(err)
}

// tableReader reads a table that tableWriter has written, row by row.
type tableReader[R any] struct {
	start  time.Time // of the recording
	in     *parquet.GenericReader[R]
	buffer []R
	rows   []R   // in buffer, read, but not yet returned
	done   int64 // rows returned
}

const batchRows = 1024 // at once

// openParquet opens a file with a table of records.
func openParquet[R any](f *os.File) (p *tableReader[R], err error) {
	defer recovered(&err)
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	guard, err := newParquetGuard(f, info.Size())
	if err != nil {
		return nil, fmt.Errorf("not a complete Parquet file: %w", err)
	}
	file, err := parquet.OpenFile(f, info.Size(), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, fmt.Errorf("not a complete Parquet file: %w", err)
	}
	text, ok := file.Lookup(startKey)
	if !ok || !strings.HasPrefix(file.Metadata().CreatedBy, library) || !hasColumns(file.Schema(), parquet.SchemaOf(*new(R))) {
		return nil, errForeign(f.Name())
	}
	p = &tableReader[R]{buffer: make([]R, batchRows)}
	if p.start, err = time.Parse(time.RFC3339Nano, text); err != nil {
		return nil, fmt.Errorf("metadata %s is %.40q, want a time such as 2026-03-01T12:00:00Z", startKey, text)
	}
	if err := guard.checkPages(file); err != nil {
		return nil, fmt.Errorf("the Parquet file is damaged: %w", err)
	}
	p.in = parquet.NewGenericReader[R](file)
	return p, nil
}

// hasColumns reports whether a file has the columns that this package writes. Another version of it
// may lack some that can be null, and have more.
func hasColumns(file, own *parquet.Schema) bool {
	for _, field := range file.Fields() {
		if !field.Leaf() || field.Repeated() {
			return false
		}
	}
	for _, field := range own.Fields() {
		leaf, ok := file.Lookup(field.Name())
		if ok && !parquet.EqualTypes(leaf.Node.Type(), field.Type()) || !ok && field.Required() {
			return false
		}
	}
	return true
}

// errForeign says how a Parquet file of another program becomes one that is read.
func errForeign(name string) error {
	if recording, spans := strings.CutSuffix(name, spansSuffix); spans {
		return fmt.Errorf("this is the table of spans that belongs to a recording: name %s.parquet", recording)
	}
	if strings.ContainsAny(name, "\"'$`\\") { // would end the quotation
		name = "FILE.parquet"
	}
	return fmt.Errorf("another program has written this Parquet file: convert it to CSV: python3 -c \"import pandas; pandas.read_parquet('%s').to_csv('%s.csv', mode='x')\"",
		name, strings.TrimSuffix(name, ".parquet"))
}

// peek returns the next row and does not consume it. The error is io.EOF when there is none.
func (p *tableReader[R]) peek() (r *R, err error) {
	defer recovered(&err)
	if len(p.rows) > 0 {
		return &p.rows[0], nil
	}
	clear(p.buffer)
	n, err := p.in.Read(p.buffer)
	if p.rows = p.buffer[:n]; n > 0 {
		return &p.rows[0], nil
	}
	if !errors.Is(err, io.EOF) {
		err = fmt.Errorf("the Parquet file is damaged after row %d: %w", p.done, err)
	}
	return nil, err
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
