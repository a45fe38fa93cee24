package tracefile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/parquet-go/parquet-go"
)

// parquetReader reads a Parquet file row by row. The library panics on some damaged files;
// that becomes an error here.
type parquetReader struct {
	header Header
	r      *parquet.GenericReader[record]
	rows   []record
	next   int
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
		return nil, fmt.Errorf("no whole Parquet file: %w", err)
	}
	file, err := parquet.OpenFile(f, info.Size(), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, fmt.Errorf("no whole Parquet file: %w", err)
	}
	if err := checkColumns(file.Schema()); err != nil {
		return nil, err
	}
	if err := guard.checkPages(file); err != nil {
		return nil, fmt.Errorf("the Parquet file is damaged, or none of a recording: %w", err)
	}
	p = &parquetReader{r: parquet.NewGenericReader[record](file), rows: make([]record, 0, 1024)}
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

// checkColumns finds columns that are missing or of another type than ours.
func checkColumns(schema *parquet.Schema) error {
	for _, name := range required() {
		if _, ok := schema.Lookup(name); !ok {
			return fmt.Errorf("it has no column %q: it is no recording", name)
		}
	}
	ours := parquet.SchemaOf(record{})
	for _, field := range ours.Fields() {
		theirs, ok := schema.Lookup(field.Name())
		if !ok {
			continue
		}
		want, got := field.Type(), theirs.Node.Type()
		if got.Kind() != want.Kind() || theirs.Node.Repeated() {
			return fmt.Errorf("column %q is of type %v, want %v", field.Name(), got, want)
		}
		if field.Name() == timeColumn && got.String() != want.String() {
			return fmt.Errorf("column %q is of type %v, want %v", field.Name(), got, want)
		}
	}
	return nil
}

// fill reads the next rows; io.EOF when there are none.
func (p *parquetReader) fill() error {
	p.next = 0
	n, err := p.r.Read(p.rows[:cap(p.rows)])
	p.rows = p.rows[:n]
	switch {
	case n > 0:
		return nil // the error comes again
	case err == nil:
		return io.ErrNoProgress
	default:
		return err
	}
}

func (p *parquetReader) Header() Header { return p.header }

func (p *parquetReader) Next() (r *Row, err error) {
	defer recovered(&err)
	if p.next == len(p.rows) {
		if err := p.fill(); err != nil {
			return nil, err
		}
	}
	rec := &p.rows[p.next]
	p.next++
	p.done++
	if r, err = rec.row(p.header.Start.UnixNano()); err != nil {
		return nil, fmt.Errorf("row %d: %w", p.done, err)
	}
	return r, nil
}

func recovered(err *error) {
	if problem := recover(); problem != nil {
		*err = fmt.Errorf("the Parquet file is damaged: %v", problem)
	}
}
