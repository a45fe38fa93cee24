package tracefile

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"pinfold.dev/pinfold/internal/tabular"
)

// csvWriter writes rows as CSV (RFC 4180, but lines end with a line feed).
type csvWriter struct {
	header Header
	w      *csv.Writer
	texts  []string
}

func newCSVWriter(w io.Writer, h Header) (*csvWriter, error) {
	c := &csvWriter{header: h, w: csv.NewWriter(bufio.NewWriterSize(w, 64<<10)), texts: columnNames[record]()}
	return c, c.line()
}

func (c *csvWriter) Write(r *Row) error {
	rec := toRecord(c.header, r)
	for i, value := range rec.values() {
		c.texts[i] = formatValue(value)
	}
	return c.line()
}

func (c *csvWriter) line() error {
	if err := c.w.Write(c.texts); err != nil {
		return fmt.Errorf("write CSV: %w", err)
	}
	return nil
}

func (c *csvWriter) Close() error {
	c.w.Flush()
	if err := c.w.Error(); err != nil {
		return fmt.Errorf("write CSV: %w", err)
	}
	return nil
}

// csvReader reads CSV row by row.
type csvReader struct {
	header  Header
	r       *tabular.Reader
	columns []*column // those of the file; nil for unknown columns
	fields  []int     // their indices in record.values
	time    *column
	first   *record // read in advance, for the header
}

func newCSVReader(in io.Reader) (*csvReader, error) {
	r, err := tabular.NewReader(in, required()...)
	var no *tabular.NoColumnError
	switch {
	case errors.Is(err, io.EOF):
		return nil, ErrEmpty
	case errors.As(err, &no):
		return nil, fmt.Errorf("%w: not a recording in CSV, Parquet or .npy, and not a journal", err)
	case err != nil:
		return nil, err
	}
	c := &csvReader{r: r}
	if err := c.findColumns(); err != nil {
		return nil, err
	}
	if c.first, err = c.read(); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, ErrEmpty
		}
		return nil, err
	}
	c.header = c.first.headerOf()
	return c, nil
}

func (c *csvReader) findColumns() error {
	known := columnNames[record]()
	c.columns, c.fields = make([]*column, len(c.r.Names)), make([]int, len(c.r.Names))
	for i, name := range c.r.Names {
		if c.fields[i] = slices.Index(known, name); c.fields[i] < 0 {
			continue
		}
		if slices.Contains(c.r.Names[:i], name) {
			return fmt.Errorf("column %q appears twice", name)
		}
		c.columns[i] = &column{name: name, required: slices.Contains(required(), name)}
		if c.fields[i] == 0 {
			c.time = c.columns[i]
		}
	}
	return nil
}

func (c *csvReader) read() (*record, error) {
	texts, err := c.r.Read()
	if err != nil {
		return nil, err
	}
	rec := &record{}
	values := rec.values()
	for i, text := range texts {
		if c.columns[i] == nil {
			continue
		}
		if err := c.columns[i].setText(values[c.fields[i]], text); err != nil {
			return nil, fmt.Errorf("line %d: %w", c.r.Line(i), err)
		}
	}
	return rec, nil
}

func (c *csvReader) Header() Header { return c.header }

func (c *csvReader) Resolution() time.Duration { return c.time.resolution }

func (c *csvReader) Next() (*Row, error) {
	rec := c.first
	c.first = nil
	if rec == nil {
		var err error
		if rec, err = c.read(); err != nil {
			return nil, err
		}
	}
	r, err := rec.row(c.header.Start.UnixNano())
	if err != nil {
		return nil, fmt.Errorf("line %d, at %s: %w", c.r.Line(0), formatValue((*unixTime)(&rec.Time)), err)
	}
	return r, nil
}
