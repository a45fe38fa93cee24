package tracefile

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"pinfold.dev/pinfold/core/trace"
)

// Read reads a whole recording, with what its threads did if that was traced; see Open and
// File.AddExact. lost is the result of File.Lost.
func Read(name string, npyInterval time.Duration) (rec *trace.Recording, lost int64, err error) {
	f, err := Open(name, npyInterval)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	rec, err = Gather(f.Header(), f.Rows())
	if err != nil {
		return nil, 0, err
	}
	if len(rec.Series) == 0 {
		return nil, 0, fmt.Errorf("%s: %w", name, ErrEmpty)
	}
	return rec, f.Lost(), f.AddExact(rec)
}

// Gather collects rows into a recording, with one series per group, sorted by group. The rows may
// be in any order, except that the samples of each group must be in the order of time. If samples
// began before the start in the header, the start becomes that of the first of them.
func Gather(h Header, rows iter.Seq2[*Row, error]) (*trace.Recording, error) {
	rec := &trace.Recording{Start: h.Start, Interval: h.Interval}
	index := map[string]int{}
	var first time.Duration
	for row, err := range rows {
		if err != nil {
			return nil, err
		}
		i, ok := index[row.Group]
		if !ok {
			i = len(rec.Series)
			index[row.Group] = i
			rec.Series = append(rec.Series, trace.Series{Group: row.Group})
		}
		s := &rec.Series[i]
		if s.Name == "" {
			s.Name = row.Name
		}
		first = min(first, row.Begin())
		s.Samples = append(s.Samples, row.Sample)
	}
	if first < 0 {
		rec.Start = rec.Start.Add(first)
		for _, s := range rec.Series {
			for i := range s.Samples {
				s.Samples[i].At -= first
			}
		}
	}
	slices.SortFunc(rec.Series, func(a, b trace.Series) int { return strings.Compare(a.Group, b.Group) })
	return rec, nil
}

// Rows returns the rows of a recording, series by series.
func Rows(rec *trace.Recording) iter.Seq2[*Row, error] {
	return func(yield func(*Row, error) bool) {
		for i := range rec.Series {
			s := &rec.Series[i]
			for j := range s.Samples {
				if !yield(&Row{Group: s.Group, Name: s.Name, Sample: s.Samples[j]}, nil) {
					return
				}
			}
		}
	}
}

// Only returns the rows or spans that are wanted.
func Only[R any](rows iter.Seq2[*R, error], wanted func(*R) bool) iter.Seq2[*R, error] {
	return func(yield func(*R, error) bool) {
		for r, err := range rows {
			if (err != nil || wanted(r)) && !yield(r, err) {
				return
			}
		}
	}
}
