package tracefile

import (
	"iter"
	"slices"
	"strings"
	"time"

	"pinfold.dev/pinfold/core/trace"
)

// Gather collects rows into a recording, with one series per group in the order of their names. The
// rows may be in any order, except that the samples of each group must be in the order of time. If
// samples began before the start in the header, the start becomes that of the first of them.
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
	shift(rec, first)
	slices.SortFunc(rec.Series, func(a, b trace.Series) int { return strings.Compare(a.Group, b.Group) })
	return rec, nil
}

// shift moves the start of a recording by a time that is not positive.
func shift(rec *trace.Recording, by time.Duration) {
	if by == 0 {
		return
	}
	rec.Start = rec.Start.Add(by)
	for i := range rec.Series {
		for j := range rec.Series[i].Samples {
			rec.Series[i].Samples[j].At -= by
		}
	}
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
