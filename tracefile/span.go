package tracefile

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"strings"
	"time"

	"pinfold.dev/pinfold/core/blame"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/internal/atomicfile"
)

// spansSuffix ends the names of tables of spans.
const spansSuffix = ".spans.parquet"

// SpansOf returns the name of the table of spans that belongs to a Parquet file.
func SpansOf(output string) string { return strings.TrimSuffix(output, ".parquet") + spansSuffix }

// spanRecord is a row of a table of spans. Numbers about threads are 0 at an edge, and those about
// quotas 0 otherwise.
type spanRecord struct {
	Start           int64  `parquet:"start,timestamp(nanosecond)"` // since 1970 (UTC)
	Length          int64  `parquet:"length_ns"`                   // 0 at an edge, and when a thread leaves a group
	Group           string `parquet:"group,dict"`
	Name            string `parquet:"name,dict,optional"`
	State           string `parquet:"state,dict"` // of a blame.State, or edge
	Thread          int32  `parquet:"thread,dict"`
	Process         string `parquet:"process,dict,optional"`
	CPU             int32  `parquet:"cpu,dict"` // on which it ran, waits or last ran
	Behind          string `parquet:"behind,dict,optional"`
	QuotaBefore     int64  `parquet:"quota_before_ns"` // left before the timer gave out more
	QuotaLeft       int64  `parquet:"quota_left_ns"`   // and afterwards
	Periods         uint32 `parquet:"periods"`         // nr_periods and so on
	ThrottledPeriod uint32 `parquet:"throttled_periods"`
	ThrottledTime   int64  `parquet:"throttled_time_ns"`
}

// edge is the state of a row that is an edge of a quota.
const edge = "edge"

func toSpanRecord(h Header, s *trace.Span) spanRecord {
	rec := spanRecord{Start: h.Start.UnixNano() + int64(s.From), Length: int64(s.To - s.From), Group: s.Group, Name: s.Name,
		State: s.State.String(), Thread: int32(s.Thread), Process: s.Process, CPU: int32(s.CPU), Behind: s.Behind}
	if q := s.Quota; q != nil {
		rec.State = edge
		rec.QuotaBefore, rec.QuotaLeft = int64(q.Before), int64(q.Left)
		rec.Periods, rec.ThrottledPeriod, rec.ThrottledTime = q.Periods, q.Throttled, int64(q.ThrottledTime)
	}
	return rec
}

// span converts a record to a span and checks it. start is in nanoseconds since 1970.
func (rec *spanRecord) span(start int64) (*trace.Span, error) {
	s := &trace.Span{Group: rec.Group, Name: rec.Name, From: time.Duration(rec.Start - start), To: time.Duration(rec.Start - start + rec.Length),
		Thread: int(rec.Thread), Process: rec.Process, CPU: int(rec.CPU), Behind: rec.Behind}
	if rec.State == edge {
		s.Quota = &blame.Quota{Before: time.Duration(rec.QuotaBefore), Left: time.Duration(rec.QuotaLeft),
			Periods: rec.Periods, Throttled: rec.ThrottledPeriod, ThrottledTime: time.Duration(rec.ThrottledTime)}
		return s, s.Validate()
	}
	for state := range blame.Dead + 1 {
		if rec.State == state.String() {
			s.State = state
			return s, s.Validate()
		}
	}
	return nil, fmt.Errorf("the state is %q", rec.State)
}

// Spans returns the spans of a recording: of a journal, or those in the table beside a Parquet
// file. The spans of each thread are in the order of time. If nothing was traced, there are none.
// An error ends the sequence.
func Spans(name string) iter.Seq2[*trace.Span, error] {
	return func(yield func(*trace.Span, error) bool) {
		f, next, err := openSpans(name)
		if err != nil {
			yield(nil, err)
			return
		}
		defer f.Close()
		for {
			s, err := next()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				err = fmt.Errorf("%s: %w", f.Name(), err)
			}
			if !yield(s, err) || err != nil {
				return
			}
		}
	}
}

// openSpans opens the file that has the spans of a recording. next returns io.EOF after the last.
func openSpans(name string) (f *os.File, next func() (*trace.Span, error), err error) {
	rec, err := Open(name, time.Second)
	if err != nil {
		return nil, nil, err
	}
	if j, ok := rec.rows.(*journalReader); ok {
		return rec.f, j.NextSpan, nil
	}
	defer rec.Close()
	none := func() (*trace.Span, error) { return nil, io.EOF }
	table, ok := rec.rows.(*parquetReader)
	if !ok {
		return rec.f, none, nil
	}
	f, rows, err := openTable(SpansOf(name))
	if errors.Is(err, fs.ErrNotExist) {
		return rec.f, none, nil
	}
	if err != nil {
		return nil, nil, err
	}
	if !rows.start.Equal(table.start) {
		f.Close()
		return nil, nil, fmt.Errorf("%s: it belongs to another recording, as that began at %v and this one at %v: remove it, or rename it",
			f.Name(), rows.start.Format(time.RFC3339Nano), table.start.Format(time.RFC3339Nano))
	}
	return f, func() (*trace.Span, error) {
		row, err := rows.next()
		if err != nil {
			return nil, err
		}
		s, err := row.span(rows.start.UnixNano())
		return s, rows.at(err)
	}, nil
}

// openTable opens a table of spans.
func openTable(name string) (*os.File, *tableReader[spanRecord], error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	rows, err := openParquet[spanRecord](f)
	if err != nil {
		f.Close()
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, rows, nil
}

// writeSpans writes the table of spans of an output. If there are no spans, it removes the table of
// the file that is replaced.
func writeSpans(o Output, h Header, spans iter.Seq2[*trace.Span, error]) (n int64, err error) {
	name := SpansOf(o.Name)
	err = atomicfile.WriteFunc(name, atomicfile.Options{KeepOld: !o.Replace, Sync: true}, func(f *os.File) error {
		w := newTableWriter(f, h, func(a, b spanRecord) int {
			return cmp.Or(strings.Compare(a.Group, b.Group), cmp.Compare(a.Thread, b.Thread))
		})
		for s, err := range spans {
			if err != nil {
				return err
			}
			if err := w.write(toSpanRecord(h, s)); err != nil {
				return err
			}
			n++
		}
		if n == 0 {
			return ErrEmpty
		}
		return w.Close()
	})
	if errors.Is(err, ErrEmpty) && n == 0 {
		if err = nil; o.Replace {
			err = os.Remove(name)
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err != nil {
		return 0, fmt.Errorf("write %s: %w", name, err)
	}
	return n, nil
}

// WriteExact is like Write, and also writes spans, in a table beside a Parquet file. Other formats
// cannot represent them.
func WriteExact(o Output, h Header, rows iter.Seq2[*Row, error], spans iter.Seq2[*trace.Span, error]) (Converted, error) {
	if format, err := FormatOf(o.Name); err != nil || format != Parquet || o.Name == Stdout {
		return Write(o, h, rows)
	}
	n, err := writeSpans(o, h, spans)
	if err != nil {
		return Converted{}, err
	}
	c, err := Write(o, h, rows)
	if err != nil && n > 0 {
		err = errors.Join(err, os.Remove(SpansOf(o.Name)))
	}
	c.Spans = n
	return c, err
}

// AddExact adds to the series of a recording what their threads did, if that was traced. The
// recording has rows of the file.
func (f *File) AddExact(rec *trace.Recording) error {
	series := trace.Exacts{}
	for i := range rec.Series {
		series[rec.Series[i].Group] = trace.NewExact(&rec.Series[i])
	}
	later := f.Header().Start.Sub(rec.Start)
	from, to := trace.MaxTime, -trace.MaxTime
	for s, err := range Spans(f.name) {
		if err != nil {
			return err
		}
		s.From, s.To = s.From+later, s.To+later
		from, to = min(from, s.From), max(to, s.To)
		series.Add(s)
	}
	for i := range rec.Series {
		if x := series[rec.Series[i].Group]; from <= to {
			x.End(from, to)
			rec.Series[i].Exact = x
		}
	}
	return nil
}
