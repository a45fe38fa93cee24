package tracefile

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Numbers that CSV represents differently from Parquet.
type (
	csvTime     int64 // nanoseconds since 1970, as an RFC 3339 time in UTC
	csvOptional int64 // 0 as an empty field
)

// values returns pointers to the fields of the record, in the order of columnNames.
func (rec *record) values() []any {
	return []any{
		(*csvTime)(&rec.Time), &rec.Group, &rec.Name, &rec.Interval, &rec.Usage,
		&rec.Periods, &rec.ThrottledPeriods, &rec.ThrottledTime, &rec.BurstPeriods, &rec.BurstTime,
		(*csvOptional)(&rec.Quota), &rec.Period, &rec.Burst, &rec.Late, &rec.Nominal,
	}
}

// formatValue returns the text of a value to which one of the pointers of record.values points.
func formatValue(value any) string {
	switch v := value.(type) {
	case *csvTime:
		return time.Unix(0, int64(*v)).UTC().Format(time.RFC3339Nano)
	case *csvOptional:
		if *v == 0 {
			return ""
		}
		return strconv.FormatInt(int64(*v), 10)
	case *int64:
		return strconv.FormatInt(*v, 10)
	case *uint32:
		return strconv.FormatUint(uint64(*v), 10)
	case *bool:
		return strconv.FormatBool(*v)
	case *string:
		return *v
	}
	panic(fmt.Sprintf("tracefile: a column of type %T", value))
}

// parseValue is the reverse of formatValue.
func parseValue(value any, text string) (err error) {
	switch v := value.(type) {
	case *csvTime:
		t, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return err
		}
		if *v = csvTime(t.UnixNano()); !time.Unix(0, int64(*v)).Equal(t) {
			return fmt.Errorf("%s is out of range, want a year from 1678 to 2262", text)
		}
	case *csvOptional:
		if text != "" {
			return parseValue((*int64)(v), text)
		}
	case *int64:
		*v, err = strconv.ParseInt(text, 10, 64)
	case *uint32:
		n, err := strconv.ParseUint(text, 10, 32)
		*v = uint32(n)
		return err
	case *bool:
		*v, err = strconv.ParseBool(text)
	case *string:
		*v = text
	}
	return err
}

// csvWriter writes rows as CSV (RFC 4180, but lines end with a line feed).
type csvWriter struct {
	header Header
	w      *csv.Writer
	texts  []string
}

func newCSVWriter(w io.Writer, h Header) (*csvWriter, error) {
	c := &csvWriter{header: h, w: csv.NewWriter(bufio.NewWriterSize(w, 64<<10)), texts: columnNames()}
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
	r       *csv.Reader
	names   []string // of the columns in the file
	columns []int    // their indices in columnNames, -1 for unknown columns
	first   *record  // read in advance, for the header
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
	if err := c.findColumns(names); err != nil {
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

func (c *csvReader) findColumns(names []string) error {
	c.names = slices.Clone(names)
	c.names[0] = strings.TrimPrefix(names[0], "\ufeff") // with which spreadsheets begin their files
	for _, name := range required() {
		if !slices.Contains(c.names, name) {
			return fmt.Errorf("no column %q in the first line: not a recording in CSV, Parquet or .npy, and not a journal", name)
		}
	}
	known := columnNames()
	for i, name := range c.names {
		if slices.Contains(c.names[:i], name) {
			return fmt.Errorf("column %q appears twice", name)
		}
		c.columns = append(c.columns, slices.Index(known, name))
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
	values := rec.values()
	for i, text := range texts {
		if c.columns[i] < 0 {
			continue
		}
		if err := parseValue(values[c.columns[i]], text); err != nil {
			line, _ := c.r.FieldPos(i)
			return nil, fmt.Errorf("line %d: column %q: %w", line, c.names[i], err)
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
		return nil, fmt.Errorf("line %d, at %s: %w", line, formatValue((*csvTime)(&rec.Time)), err)
	}
	return r, nil
}
