package experiment

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat/distuv"
)

// This file has all statistics. A figure of a condition is that of all its undisturbed windows
// together: the quantile of all their requests, or the mean of a figure that each window has once. How far it
// can be from the true one is seen by resampling: rounds are drawn with replacement, as many as there
// are, and the figure is computed again. All conditions use the same draws, so that what the windows of a
// round have in common cancels out of a ratio.

// Value is an estimate from several rounds, with an interval that contains the true one with a
// confidence of 95%. Low and High are infinite if there are fewer than [MinRounds].
type Value struct {
	Estimate, Low, High float64
	Rounds              int
}

// Bounded reports whether there were enough rounds for an interval.
func (v Value) Bounded() bool { return !math.IsInf(v.Low, 0) && !math.IsInf(v.High, 0) }

const (
	// MinRounds is how many rounds an interval needs. In 200 simulations each of means and quantiles of 6 to 30
	// rounds with 40 to 200 requests, of windows that are alike and of windows whose latencies differ by a factor of
	// e (one standard deviation), 93 to 97% of the intervals contained the true ratio (TestCoverage has fewer).
	MinRounds = 6
	// minBeyond is how many requests have to be slower than a quantile.
	minBeyond  = 10
	confidence = 0.95
	resamples  = 1000
)

// estimates are those of a figure of a condition.
type estimates struct {
	value     float64
	resampled []float64 // NaN where no round with the condition was drawn
	rounds    int
	length    time.Duration // of all windows together
	// effective is how many rounds matter: fewer if most of a sum, or most of the requests beyond a quantile, are
	// of few windows.
	effective float64
	most      int // rounds, if they end as soon as there is an answer; 0: their number was fixed before
	// missing is how many more rounds there must be for the quantile to have enough requests beyond it.
	missing int
}

// draws returns how often each of n rounds is in each resample. They are the same in each call.
func draws(n int) (all [][]int32) {
	random := rand.New(rand.NewPCG(uint64(n), 1))
	for range resamples {
		drawn := make([]int32, n)
		for range n {
			drawn[random.IntN(n)]++
		}
		all = append(all, drawn)
	}
	return all
}

// windows returns a window for each round, in the order of rounds: nil if the round has no undisturbed one of
// the condition with the figure. rounds is how many are not nil.
func (r Result) windows(f Figure, condition, load string) (windows []*Window, rounds int) {
	places := map[int]int{} // of rounds
	for _, w := range r.Windows {
		places[w.Round] = 0
	}
	for i, round := range slices.Sorted(maps.Keys(places)) {
		places[round] = i
	}
	windows = make([]*Window, len(places))
	for i, w := range r.Windows {
		if _, ok := w.Figures[f]; ok && w.Disturbed == "" && w.Condition == condition && w.Load == load {
			if windows[places[w.Round]] == nil {
				rounds++
			}
			windows[places[w.Round]] = &r.Windows[i]
		}
	}
	return windows, rounds
}

// once counts each of n rounds once.
func once(n int) []int32 { return slices.Repeat([]int32{1}, n) }

// mean returns the mean of a figure of a condition, NaN without a window.
func (r Result) mean(f Figure, condition, load string) float64 {
	windows, _ := r.windows(f, condition, load)
	return meanOf(f, windows)(once(len(windows)))
}

// estimate estimates a figure of a condition.
func (r Result) estimate(f Figure, condition, load string) estimates {
	windows, rounds := r.windows(f, condition, load)
	e := estimates{value: math.NaN(), rounds: rounds, most: r.Config.Most}
	if rounds == 0 {
		return e
	}
	var parts []float64
	for _, w := range windows {
		if w != nil {
			e.length += w.To - w.From
			parts = append(parts, w.Figures[f])
		}
	}
	of := meanOf(f, windows)
	e.effective = effective(parts, 0)
	if q, ok := quantiles()[f]; ok {
		if pooled, total, slower := quantileOf(q, windows); total > 0 {
			of = pooled
			e.effective = effective(slower, floats.Sum(slower))
			if e.missing = int(math.Ceil(float64(e.rounds) * (minBeyond/(float64(total)*(1-q)) - 1))); e.missing > 0 {
				return e
			}
		}
	}
	e.value = of(once(len(windows)))
	for _, drawn := range draws(len(windows)) {
		e.resampled = append(e.resampled, of(drawn))
	}
	return e
}

// effective returns how many windows have parts of a sum, if they had equal ones: Kish's effective sample size.
// noise is the variance that the sum has by chance, if it counts independent events.
func effective(parts []float64, noise float64) float64 {
	sum, squares, n := 0., -noise, float64(len(parts))
	for _, x := range parts {
		sum, squares = sum+x, squares+x*x
	}
	if squares <= sum*sum/n {
		return n
	}
	return sum * sum / squares
}

// meanOf returns the mean of a figure over windows, as a function of how often each counts.
func meanOf(f Figure, windows []*Window) func([]int32) float64 {
	return func(drawn []int32) float64 {
		sum, n := 0., 0.
		for i, w := range windows {
			if w != nil {
				sum += float64(drawn[i]) * w.Figures[f]
				n += float64(drawn[i])
			}
		}
		return sum / n
	}
}

// quantileOf returns a quantile of the latencies of windows in milliseconds, as a function of how often each
// window counts. total is the number of latencies, 0 if a window has no readable histogram, and slower how many
// each window has beyond the quantile of all.
func quantileOf(q float64, windows []*Window) (of func([]int32) float64, total int64, slower []float64) {
	type bar struct {
		window int
		to     int64
		count  int64
	}
	var bars []bar
	totals := make([]int64, len(windows))
	for i, w := range windows {
		if w == nil {
			continue
		}
		h, err := w.Histogram()
		if err != nil {
			return nil, 0, nil
		}
		for _, b := range h.Distribution() {
			if b.Count > 0 {
				bars = append(bars, bar{i, b.To, b.Count})
				totals[i] += b.Count
			}
		}
		total += totals[i]
	}
	slices.SortFunc(bars, func(a, b bar) int { return int(b.to - a.to) }) // the slowest first
	of = func(drawn []int32) float64 {
		left := int64(0)
		for i, n := range totals {
			left += n * int64(drawn[i])
		}
		beyond := int64(float64(left) * (1 - q))
		for _, b := range bars {
			if beyond -= b.count * int64(drawn[b.window]); beyond < 0 {
				return float64(b.to) / 1000
			}
		}
		return math.NaN()
	}
	quantile, counts := of(once(len(windows))), make([]float64, len(windows))
	for _, b := range bars {
		if float64(b.to)/1000 > quantile {
			counts[b.window] += float64(b.count)
		}
	}
	for i, w := range windows {
		if w != nil {
			slower = append(slower, counts[i])
		}
	}
	return of, total, slower
}

// longest is the longest latency of a histogram.
const longest = time.Hour

// NewHistogram returns a histogram for the latencies of several windows, in microseconds.
func NewHistogram() *hdr.Histogram { return hdr.New(1, longest.Microseconds(), 3) }

// Histogram returns the latencies of a window in microseconds. It returns an error if the window has none,
// or a damaged histogram; the library panics on some of these.
func (w Window) Histogram() (h *hdr.Histogram, err error) {
	if len(w.Latencies) == 0 {
		return nil, errors.New("it has no latencies")
	}
	defer func() {
		if problem := recover(); problem != nil {
			h, err = nil, fmt.Errorf("the histogram is damaged: %v", problem)
		}
	}()
	if h, err = hdr.Decode(w.Latencies); err != nil {
		return nil, fmt.Errorf("the histogram is damaged: %w", err)
	}
	if h.Max() > longest.Microseconds() {
		return nil, fmt.Errorf("it has latencies of more than %v", longest)
	}
	return h, nil
}

// over returns the estimates of a ratio. It has no rounds if one of them would be 0 or infinite.
func (e estimates) over(base estimates) estimates {
	ratio := estimates{value: e.value / base.value, rounds: min(e.rounds, base.rounds), effective: min(e.effective, base.effective), most: e.most}
	if e.resampled == nil || base.resampled == nil || math.IsNaN(ratio.value) {
		return estimates{}
	}
	for i := range e.resampled {
		ratio.resampled = append(ratio.resampled, e.resampled[i]/base.resampled[i])
	}
	if slices.ContainsFunc(append(ratio.resampled, ratio.value), func(x float64) bool { return x <= 0 || math.IsInf(x, 0) }) {
		return estimates{}
	}
	return ratio
}

// minus returns the estimates of a difference from one with as many or fewer draws.
func (e estimates) minus(other estimates) estimates {
	d := estimates{value: e.value - other.value, rounds: min(e.rounds, other.rounds), effective: min(e.effective, other.effective), most: e.most}
	for i := range min(len(e.resampled), len(other.resampled)) {
		d.resampled = append(d.resampled, e.resampled[i]-other.resampled[i])
	}
	return d
}

// signs compares the windows of each round, where there is no ratio. p is that of the sign test, for each of several
// looks if the experiment may end early.
func (r Result) signs(f Figure, condition, baseline, load string) (lower, higher int, p float64) {
	of, rounds := r.windows(f, condition, load)
	base, _ := r.windows(f, baseline, load)
	for i, w := range of {
		switch {
		case w == nil || base[i] == nil:
		case w.Figures[f] < base[i].Figures[f]:
			lower++
		case w.Figures[f] > base[i].Figures[f]:
			higher++
		}
	}
	if rounds < MinRounds || lower+higher == 0 {
		return lower, higher, math.NaN()
	}
	p = 2 * distuv.Binomial{N: float64(lower + higher), P: .5}.CDF(float64(min(lower, higher)))
	if r.Config.Most > 0 {
		p *= float64(rounds - MinRounds + 1)
	}
	return lower, higher, min(1, p)
}

// bounds returns the estimate with its interval: as many standard errors as Student's t distribution has, with
// as many degrees of freedom as rounds matter, of the logarithm if no value is 0. The standard error of few rounds
// drawn with replacement is too small by the root of (n-1)/n. p is the probability of estimates that are so far
// from 1 if the true one is 1.
//
// If an experiment ends as soon as it has an answer, it looks after each round. Intervals are then so wide that
// those of all looks together contain the true one with the same confidence: after n of at most N rounds, by the
// root of N/n. The estimate times n is a random walk, which is beyond a bound at some time up to N with at most
// twice the probability with which it is at N (the reflection principle; O'Brien and Fleming, 1979).
func (e estimates) bounds(logarithmic bool) (v Value, p float64) {
	v = Value{Estimate: e.value, Low: math.Inf(-1), High: math.Inf(1), Rounds: e.rounds}
	if e.rounds < MinRounds || len(e.resampled) == 0 {
		return v, math.NaN()
	}
	scale, back := func(x float64) float64 { return x }, func(x float64) float64 { return x }
	logarithmic = logarithmic && e.value > 0 && !slices.ContainsFunc(e.resampled, func(x float64) bool { return x <= 0 })
	if logarithmic {
		scale, back = math.Log, math.Exp
	}
	sum, squares, n := 0., 0., 0.
	for _, x := range e.resampled {
		if !math.IsNaN(x) {
			d := scale(x) - scale(e.value)
			sum, squares, n = sum+d, squares+d*d, n+1
		}
	}
	rounds := float64(e.rounds)
	deviation := math.Sqrt(max(0, squares-sum*sum/n) / (n - 1) * rounds / (rounds - 1))
	t := distuv.StudentsT{Sigma: 1, Nu: max(3, e.effective-1)}
	tails := 2.
	if most := float64(e.most); most > 0 {
		tails, deviation = 4, deviation*math.Sqrt(max(1, most/rounds))
	}
	half := t.Quantile(1-(1-confidence)/tails) * deviation
	v.Low, v.High = back(scale(e.value)-half), back(scale(e.value)+half)
	switch {
	case !logarithmic:
		return v, math.NaN()
	case deviation > 0:
		return v, min(1, tails*t.CDF(-math.Abs(math.Log(e.value))/deviation))
	case e.value == 1:
		return v, 1
	}
	return v, 0
}

// valueOf returns the estimate with its interval, within what the figure can be.
func (e estimates) valueOf(f Figure) Value {
	share := Figures()[f].Unit == Share
	v, _ := e.bounds(!share)
	if v.Bounded() {
		v.Low = max(0, v.Low)
	}
	if !share || !v.Bounded() {
		return v
	}
	v.High = min(v.High, 1)
	if e.value == 0 && e.length > 0 { // in no second of n: at most in 3/n (rule of three); what is in one second is alike
		v.High = min(1, 3/e.length.Seconds())
	}
	return v
}

// Threshold returns the largest p of a comparison that is significant among many, so that at most a share
// of 5% of those are expected to be so by chance (Benjamini and Hochberg, 1995).
func Threshold(ps []float64) float64 {
	ps = slices.DeleteFunc(slices.Clone(ps), math.IsNaN)
	slices.Sort(ps)
	for i, p := range slices.Backward(ps) {
		if most := (1 - confidence) * float64(i+1) / float64(len(ps)); p <= most {
			return most
		}
	}
	return 0
}
