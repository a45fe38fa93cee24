package experiment

import (
	"fmt"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
)

// MaxLatency is the longest latency of a histogram.
const MaxLatency = time.Hour

// NewHistogram returns a histogram for the latencies of one or several windows, in microseconds.
func NewHistogram() *hdr.Histogram { return hdr.New(1, MaxLatency.Microseconds(), 3) }

// Histogram returns the latencies of a window in microseconds. It returns nil if the window has none.
func (w Window) Histogram() (h *hdr.Histogram, err error) {
	if len(w.Latencies) == 0 {
		return nil, nil
	}
	defer func() { // the library panics on some damaged ones
		if problem := recover(); problem != nil {
			h, err = nil, fmt.Errorf("the histogram is damaged: %v", problem)
		}
	}()
	if h, err = hdr.Decode(w.Latencies); err != nil {
		return nil, fmt.Errorf("the histogram is damaged: %w", err)
	}
	if h.Max() > MaxLatency.Microseconds() {
		return nil, fmt.Errorf("it has latencies of more than %v", MaxLatency)
	}
	return h, nil
}

// quantiles are the figures that are quantiles of latency.
func quantiles() map[Figure]float64 {
	return map[Figure]float64{P50: .5, P90: .9, P99: .99, P999: .999}
}

// requests returns the latencies of a window, nil if they are not known.
func (w Window) requests() (all []requests) {
	h, err := w.Histogram()
	if err != nil || h == nil {
		return nil
	}
	all = []requests{}
	for _, bar := range h.Distribution() {
		if bar.Count > 0 {
			all = append(all, requests{float64(bar.To) / 1000, w.Round, bar.Count})
		}
	}
	return all
}
