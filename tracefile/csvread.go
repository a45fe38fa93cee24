package tracefile

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// csvReader reads CSV row by row.
type csvReader struct {
	header  Header
	r       *csv.Reader
	columns []*field // by position; nil for one that is not ours
	first   *record  // read already
}

func newCSVReader(in io.Reader) (*csvReader, error) {
	c := &csvReader{r: csv.NewReader(bufio.NewReaderSize(in, 64<<10))}
	c.r.ReuseRecord = true
	names, err := c.r.Read()
	if errors.Is(err, io.EOF) {
		return nil, ErrEmpty
	}
	if err != nil {
		return nil, fmt.Errorf("read CSV: %w", err)
	}
	if err := c.find(names); err != nil {
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

// find finds the columns by their names.
func (c *csvReader) find(names []string) error {
	ours := fields()
	for i, name := range names {
		names[i] = strings.TrimPrefix(name, "\ufeff") // as spreadsheets begin their files
	}
	for _, name := range required() {
		if !slices.Contains(names, name) {
			return fmt.Errorf("it has no column %q in its first line: it is no recording in CSV, Parquet or .npy, and no journal", name)
		}
	}
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			return fmt.Errorf("column %q is there twice", name)
		}
		var column *field
		if at := slices.IndexFunc(ours, func(f field) bool { return f.name == name }); at >= 0 {
			column = &ours[at]
		}
		c.columns = append(c.columns, column)
	}
	return nil
}

func (c *csvReader) read() (*record, error) {
	texts, err := c.r.Read()
	if errors.Is(err, io.EOF) {
		return nil, io.EOF
	}
	if err != nil {
		return nil, fmt.Errorf("read CSV: %w", err)
	}
	rec := &record{}
	for i, text := range texts {
		if c.columns[i] == nil {
			continue
		}
		if err := c.columns[i].parse(rec, text); err != nil {
			line, _ := c.r.FieldPos(i)
			return nil, fmt.Errorf("line %d: column %q: %w", line, c.columns[i].name, err)
		}
	}
	return rec, nil
}

func (c *csvReader) Header() Header { return c.header }

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
		line, _ := c.r.FieldPos(0)
		return nil, fmt.Errorf("line %d, at %s: %w", line, time.Unix(0, rec.Time).UTC().Format(time.RFC3339Nano), err)
	}
	return r, nil
}
