package metricfile

import (
	"math"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// chunkSamples is how many samples a chunk has at most.
const chunkSamples = math.MaxUint16

// series is what the files have of a series. Times are in milliseconds.
type series struct {
	labels      labels.Labels
	chunks      []*chunkenc.XORChunk
	appender    chunkenc.Appender // of the last chunk
	first, last int64             // times of all samples; 0 while there are no samples
	end         int64             // of the last chunk
	bytes       int64             // that are counted
}

// add adds a sample. In a chunk they are in the order of time; one that is not later than the last
// one begins another chunk, as that of another file does.
func (s *series) add(t int64, v float64) {
	n := len(s.chunks)
	switch {
	case n > 0 && t == s.end: // the same again
		return
	case n == 0 || t < s.end || s.chunks[n-1].NumSamples() == chunkSamples:
		c := chunkenc.NewXORChunk()
		s.appender, _ = c.Appender() // fails for a damaged chunk only
		s.chunks = append(s.chunks, c)
	}
	s.appender.Append(0, t, v)
	s.end, s.last = t, max(s.last, t)
	if s.first == 0 || t < s.first {
		s.first = t
	}
}

// size returns how much memory the series takes, about.
func (s *series) size() int64 {
	n := int64(512)
	s.labels.Range(func(l labels.Label) { n += int64(len(l.Name) + len(l.Value)) })
	for _, c := range s.chunks {
		n += int64(cap(c.Bytes())) + 64
	}
	return n
}

// Labels is of [storage.Series].
func (s *series) Labels() labels.Labels { return s.labels }

// Iterator returns the samples in the order of time, with one of those of the same time.
func (s *series) Iterator(again chunkenc.Iterator) chunkenc.Iterator {
	var all []chunkenc.Iterator
	for _, c := range s.chunks {
		all = append(all, c.Iterator(nil))
	}
	return storage.ChainSampleIteratorFromIterators(again, all)
}
