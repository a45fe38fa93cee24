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
	rows, err := openParquet(f, (*record).values, required()...)
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

func (p *parquetReader) Resolution() time.Duration { return p.columns[0].resolution }

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
	start   time.Time          // of the recording; zero if the file does not say it
	groups  []parquet.RowGroup // of which reading has not begun
	left    int64              // rows of the current group that were not read
	columns []*parquetColumn
	buffer  []R
	fields  [][]any // pointers to the fields of each record in buffer
	values  []parquet.Value
	rows    []R   // in buffer, read, but not yet returned
	done    int64 // rows returned
}

const batchRows = 1024 // at once

// openParquet opens a file, in which the required columns must be. fields returns pointers to the
// fields of a record, in the order of columnNames.
func openParquet[R any](f *os.File, fields func(*R) []any, required ...string) (p *tableReader[R], err error) {
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
	p = &tableReader[R]{groups: file.RowGroups(), buffer: make([]R, batchRows), values: make([]parquet.Value, batchRows)}
	for i := range p.buffer {
		p.fields = append(p.fields, fields(&p.buffer[i]))
	}
	if err := p.findColumns(file.Schema(), required); err != nil {
		return nil, err
	}
	if err := guard.checkPages(file, p.columns); err != nil {
		return nil, fmt.Errorf("the Parquet file is damaged, or not a recording: %w", err)
	}
	if text, ok := file.Lookup(startKey); ok {
		if p.start, err = time.Parse(time.RFC3339Nano, text); err != nil {
			return nil, fmt.Errorf("metadata %s is %.40q, want a time such as 2026-03-01T12:00:00Z", startKey, text)
		}
	}
	return p, nil
}

// findColumns returns an error if a required column is missing or one of the columns has a type
// that cannot be converted.
func (p *tableReader[R]) findColumns(schema *parquet.Schema, required []string) error {
	for i, name := range columnNames[R]() {
		required := slices.Contains(required, name)
		leaf, ok := schema.Lookup(name)
		if !ok && required {
			return fmt.Errorf("no column %q: not a recording", name)
		}
		if !ok {
			continue
		}
		c, err := newParquetColumn(name, leaf, required, i, p.fields[0][i])
		if err != nil {
			return err
		}
		if c != nil {
			p.columns = append(p.columns, c)
		}
	}
	return nil
}

// peek returns the next row and does not consume it. The error is io.EOF when there is none.
func (p *tableReader[R]) peek() (r *R, err error) {
	defer recovered(&err)
	if len(p.rows) == 0 {
		err = p.read()
	}
	if err != nil {
		return nil, err
	}
	return &p.rows[0], nil
}

// read reads some of the rows of the next row group that has any.
func (p *tableReader[R]) read() error {
	for p.left == 0 {
		if len(p.groups) == 0 {
			return io.EOF
		}
		p.left = p.groups[0].NumRows()
		for _, c := range p.columns {
			if err := c.open(p.groups[0]); err != nil {
				return err
			}
		}
		p.groups = p.groups[1:]
	}
	n := int(min(p.left, batchRows))
	clear(p.buffer[:n])
	for _, c := range p.columns {
		if i, err := c.fill(p.fields[:n], p.values); err != nil {
			return fmt.Errorf("row %d: %w", p.done+int64(i)+1, err)
		}
	}
	p.rows, p.left = p.buffer[:n], p.left-int64(n)
	return nil
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
