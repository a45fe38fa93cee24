package main

import (
	"fmt"
	"time"

	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/tracefile"
)

// maxKept bounds what is kept in memory for the summary: 128 bytes a sample, and up to twice
// that while slices grow.
const maxKept = 1 << 20

// memory keeps the samples of a recording for its summary. When there are too many, the
// older half is given up.
type memory struct {
	rec           trace.Recording
	index         map[string]int
	counts        []int // of each series, in the whole recording
	kept          int
	samples, late int  // of the whole recording
	longest       int  // samples of the group that has most
	shortened     bool // older samples were given up
	most          int
}

func newMemory(interval time.Duration) *memory {
	return &memory{rec: trace.Recording{Interval: interval}, index: map[string]int{}, most: maxKept}
}

func (m *memory) add(r *tracefile.Row) {
	i, ok := m.index[r.Group]
	if !ok {
		i = len(m.rec.Series)
		m.index[r.Group] = i
		m.rec.Series = append(m.rec.Series, trace.Series{Group: r.Group, Name: r.Name})
		m.counts = append(m.counts, 0)
	}
	m.rec.Series[i].Samples = append(m.rec.Series[i].Samples, r.Sample)
	m.counts[i]++
	m.longest = max(m.longest, m.counts[i])
	m.kept++
	m.samples++
	if r.Late {
		m.late++
	}
	if m.kept >= m.most {
		m.halve()
	}
}

// halve gives up the older half of each series.
func (m *memory) halve() {
	m.kept, m.shortened = 0, true
	for i := range m.rec.Series {
		s := &m.rec.Series[i]
		n := copy(s.Samples, s.Samples[len(s.Samples)/2:])
		s.Samples = s.Samples[:n]
		m.kept += n
	}
}

// recording returns what was kept.
func (m *memory) recording() *trace.Recording { return &m.rec }

// note says what the summary leaves out; "" for nothing.
func (m *memory) note() string {
	if !m.shortened {
		return ""
	}
	return fmt.Sprintf("the summary is of the last %d of %d samples: 'pinfold trace info FILE' has all", m.kept, m.samples)
}
