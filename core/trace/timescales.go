package trace

import (
	"slices"
	"time"

	"pinfold.dev/pinfold/core/quantity"
)

// Scale is the usage at one timescale. Unless Throttled is 0, demand may have been higher.
type Scale struct {
	Window  quantity.Seconds `json:"windowSeconds"`
	Windows int              `json:"windows"`       // their number, >= 1
	Max     float64          `json:"maxCPUs"`       // the largest
	MaxEnd  quantity.Seconds `json:"maxEndSeconds"` // end of the first with that maximum, since the start of the recording
	P99     float64          `json:"p99CPUs"`       // the 99th percentile
	// Throttled is the share of the windows in which the group was throttled at any time, nil if that
	// is unknown. MaxThrottled reports whether the first window with the maximum is one of them.
	Throttled    *float64 `json:"throttledShare,omitempty"`
	MaxThrottled bool     `json:"-"`
}

// Timescales returns the usage of a series in windows of all lengths of Lengths(nominal, Longest),
// in ascending order, omitting lengths without windows.
//
// The maximum for windows of length w is the limit that a group needs in order to be served at
// timescale w without delay. At the enforcement period it is what a plain quota must be. At a
// longer w it is what the quota may be if unused time can be saved up for about that long. At the
// longest w it approaches the average.
//
// For n samples and s lengths the cost is O(n s) time on average and O(n) memory.
func Timescales(s *Series, nominal time.Duration) []Scale {
	return TimescalesAt(s, nominal, Lengths(nominal, Longest))
}

// TimescalesAt is like Timescales, for the given lengths.
func TimescalesAt(s *Series, nominal time.Duration, lengths []time.Duration) []Scale {
	runs := make([]prefixSums, 0, 1)
	for _, run := range s.Contiguous(nominal) {
		runs = append(runs, newPrefixSums(run))
	}
	scales := []Scale{} // not nil, to be an array in JSON
	figures := make([]float64, 0, len(s.Samples))
	unknown := slices.ContainsFunc(s.Samples, func(s Sample) bool { return s.Unknown.Has(Periods) })
	for _, w := range lengths {
		sc := Scale{Window: quantity.Seconds{Duration: w}}
		figures = figures[:0]
		throttled := 0
		for _, run := range runs {
			figures = run.windows(w, tolerance(w, nominal), figures, &sc, &throttled)
		}
		if sc.Windows = len(figures); sc.Windows == 0 {
			continue
		}
		if !unknown {
			sc.Throttled = new(float64(throttled) / float64(sc.Windows))
		}
		sc.P99 = nth(figures, rank(len(figures), 99))
		scales = append(scales, sc)
	}
	return scales
}

// tolerance returns by how much the time that a window covers may differ from its length.
func tolerance(w, nominal time.Duration) time.Duration { return max(nominal/2, w/100) }

// rank returns the index of a percentile among n values in ascending order.
func rank(n, percent int) int { return (n*percent+99)/100 - 1 }

// prefixSums are sums over the first samples of a sequence: entry i covers i samples.
type prefixSums struct {
	run       []Sample
	length    []time.Duration // strictly increasing
	usage     []time.Duration
	throttled []int32 // number of throttled samples
}

func newPrefixSums(run []Sample) prefixSums {
	p := prefixSums{
		run:       run,
		length:    make([]time.Duration, len(run)+1),
		usage:     make([]time.Duration, len(run)+1),
		throttled: make([]int32, len(run)+1),
	}
	for i := range run {
		p.length[i+1] = p.length[i] + run[i].Interval
		p.usage[i+1] = p.usage[i] + run[i].Usage
		p.throttled[i+1] = p.throttled[i]
		if run[i].WasThrottled() {
			p.throttled[i+1]++
		}
	}
	return p
}

// windows appends the values of all windows of length w to figures. It updates the maximum in sc
// and the number of throttled windows. A window starts where a sample starts, and ends at the
// sample edge nearest in real time to w later (the later of two). Its value is the CPU time used in
// it divided by the time it covers. So every value was measured: late samples are never divided,
// and windows that would need part of one are omitted.
func (p *prefixSums) windows(w, tolerance time.Duration, figures []float64, sc *Scale, throttled *int) []float64 {
	last := len(p.length) - 1
	end := 1
	for i := range last {
		target := p.length[i] + w
		end = max(end, i+1)
		for end < last && (p.length[end+1]-target).Abs() <= (p.length[end]-target).Abs() {
			end++
		}
		if (p.length[end] - target).Abs() > tolerance {
			continue
		}
		cpus := float64(p.usage[end]-p.usage[i]) / float64(p.length[end]-p.length[i])
		within := p.throttled[end] > p.throttled[i]
		if within {
			*throttled++
		}
		if len(figures) == 0 || cpus > sc.Max {
			sc.Max, sc.MaxEnd.Duration, sc.MaxThrottled = cpus, p.run[end-1].At, within
		}
		figures = append(figures, cpus)
	}
	return figures
}

// nth returns the value that would be at index k if the values were in ascending order. It reorders
// them (quickselect with the median of three as the pivot).
func nth(values []float64, k int) float64 {
	for lo, hi := 0, len(values)-1; lo < hi; {
		pivot := median(values[lo], values[lo+(hi-lo)/2], values[hi])
		i, j := lo, hi
		for i <= j {
			for values[i] < pivot {
				i++
			}
			for values[j] > pivot {
				j--
			}
			if i <= j {
				values[i], values[j] = values[j], values[i]
				i++
				j--
			}
		}
		switch { // values[lo..j] <= pivot <= values[i..hi]
		case k <= j:
			hi = j
		case k >= i:
			lo = i
		default:
			return values[k]
		}
	}
	return values[k]
}

func median(a, b, c float64) float64 {
	return max(min(a, b), min(max(a, b), c))
}

// Longest is the longest window of Timescales.
const Longest = time.Minute

const (
	everyMultiple = 32 // up to this many samples, every number of samples is a window length
	growth        = 10 // beyond that, each window is longer by 1/growth
)

// Lengths returns the window lengths for samples of a nominal interval, in ascending order up to
// longest: 66 for samples of 100 ms, and 116 for samples of 1 ms. If nominal exceeds longest, it
// returns only nominal.
func Lengths(nominal, longest time.Duration) []time.Duration {
	if nominal <= 0 {
		return nil
	}
	lengths := []time.Duration{nominal}
	maxCount := longest / nominal
	for n := time.Duration(2); n <= maxCount; {
		lengths = append(lengths, n*nominal)
		if n < everyMultiple {
			n++
		} else {
			n += n / growth
		}
	}
	for _, w := range []time.Duration{100 * time.Millisecond, time.Second, 10 * time.Second, time.Minute} {
		if w%nominal == 0 && w <= longest {
			lengths = append(lengths, w)
		}
	}
	slices.Sort(lengths)
	return slices.Compact(lengths)
}
