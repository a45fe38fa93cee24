package tracefile

import (
	"bufio"
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"time"
)

// field is a column of CSV: how it is printed and read.
type field struct {
	name  string
	print func(b []byte, r *record) []byte
	parse func(r *record, text string) error
}

// fields are the columns in the order in which they are written.
func fields() []field {
	return []field{
		{timeColumn,
			func(b []byte, r *record) []byte { return time.Unix(0, r.Time).UTC().AppendFormat(b, time.RFC3339Nano) },
			parseTime},
		stringField(groupColumn, func(r *record) *string { return &r.Group }),
		stringField("name", func(r *record) *string { return &r.Name }),
		intField("interval_ns", func(r *record) *int64 { return &r.Interval }),
		intField("usage_ns", func(r *record) *int64 { return &r.Usage }),
		countField("periods", func(r *record) *uint32 { return &r.Periods }),
		countField("throttled_periods", func(r *record) *uint32 { return &r.ThrottledPeriods }),
		intField("throttled_time_ns", func(r *record) *int64 { return &r.ThrottledTime }),
		countField("burst_periods", func(r *record) *uint32 { return &r.BurstPeriods }),
		intField("burst_time_ns", func(r *record) *int64 { return &r.BurstTime }),
		quotaField(),
		intField("period_ns", func(r *record) *int64 { return &r.Period }),
		intField("burst_ns", func(r *record) *int64 { return &r.Burst }),
		{"late",
			func(b []byte, r *record) []byte { return strconv.AppendBool(b, r.Late) },
			func(r *record, text string) (err error) { r.Late, err = strconv.ParseBool(text); return err }},
		intField("nominal_interval_ns", func(r *record) *int64 { return &r.Nominal }),
	}
}

func parseTime(r *record, text string) error {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return err
	}
	if r.Time = t.UnixNano(); !time.Unix(0, r.Time).Equal(t) {
		return fmt.Errorf("%s is too far from today", text)
	}
	return nil
}

func stringField(name string, of func(*record) *string) field {
	return field{name,
		func(b []byte, r *record) []byte { return append(b, *of(r)...) },
		func(r *record, text string) error { *of(r) = text; return nil }}
}

func intField(name string, of func(*record) *int64) field {
	return field{name,
		func(b []byte, r *record) []byte { return strconv.AppendInt(b, *of(r), 10) },
		func(r *record, text string) (err error) { *of(r), err = strconv.ParseInt(text, 10, 64); return err }}
}

func countField(name string, of func(*record) *uint32) field {
	return field{name,
		func(b []byte, r *record) []byte { return strconv.AppendUint(b, uint64(*of(r)), 10) },
		func(r *record, text string) error {
			n, err := strconv.ParseUint(text, 10, 32)
			*of(r) = uint32(n)
			return err
		}}
}

// quotaField is empty where there is no limit.
func quotaField() field {
	f := intField("quota_ns", func(r *record) *int64 { return &r.Quota })
	print, parse := f.print, f.parse
	f.print = func(b []byte, r *record) []byte {
		if r.Quota == 0 {
			return b
		}
		return print(b, r)
	}
	f.parse = func(r *record, text string) error {
		if text == "" {
			return nil
		}
		return parse(r, text)
	}
	return f
}

// csvWriter writes rows as CSV (RFC 4180, lines end with a line feed).
type csvWriter struct {
	header Header
	out    *bufio.Writer
	w      *csv.Writer
	fields []field
	texts  []string
	b      []byte
}

func newCSVWriter(w io.Writer, h Header) (*csvWriter, error) {
	out := bufio.NewWriterSize(w, 64<<10)
	c := &csvWriter{header: h, out: out, w: csv.NewWriter(out), fields: fields()}
	for _, f := range c.fields {
		c.texts = append(c.texts, f.name)
	}
	return c, c.line()
}

func (c *csvWriter) Write(r *Row) error {
	rec := toRecord(c.header, r)
	for i, f := range c.fields {
		c.b = f.print(c.b[:0], &rec)
		c.texts[i] = string(c.b)
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
	if err := c.out.Flush(); err != nil {
		return fmt.Errorf("write CSV: %w", err)
	}
	return nil
}
