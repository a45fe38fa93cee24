package experiment

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"pinfold.dev/pinfold/core/quantity"
)

// This file has all statistics: what follows from what was measured in the rounds.

// Value is an estimate from all undisturbed windows of a condition together, with an interval that
// contains the true value with a confidence of 95%. Low and High are infinite if there are fewer
// than [MinRounds].
type Value struct {
	Estimate, Low, High float64
	Rounds              int
	spread
	// Missing is why there is no estimate, although windows were measured.
	Missing string
}

// spread is how exact an estimate is.
type spread struct {
	deviation   float64 // standard deviation
	freedom     float64 // its degrees of freedom
	logarithmic bool    // both are those of the logarithm
}

// half returns half of the length of an interval with a confidence of 1 less significance.
func (s spread) half(significance float64) float64 {
	return s.deviation * distuv.StudentsT{Sigma: 1, Nu: s.freedom}.Quantile(1-significance/2)
}

// at returns the value with an interval of another significance.
func (v Value) at(significance float64) Value {
	if !v.Bounded() || v.freedom == 0 {
		return v
	}
	half := v.half(significance)
	if v.logarithmic {
		v.Low, v.High = v.Estimate*math.Exp(-half), v.Estimate*math.Exp(half)
	} else {
		v.Low, v.High = v.Estimate-half, v.Estimate+half
	}
	return v
}

// Bounded reports whether there were enough rounds for an interval.
func (v Value) Bounded() bool { return !math.IsInf(v.Low, 0) && !math.IsInf(v.High, 0) }

// Minus returns the difference to a value that was estimated independently.
func (v Value) Minus(w Value) Value {
	d := Value{Estimate: v.Estimate - w.Estimate, Rounds: min(v.Rounds, w.Rounds)}
	d.Low = d.Estimate - math.Hypot(v.Estimate-v.Low, w.High-w.Estimate)
	d.High = d.Estimate + math.Hypot(v.High-v.Estimate, w.Estimate-w.Low)
	return d
}

// Over returns the ratio to a value that was estimated independently. Both are above 0.
func (v Value) Over(w Value) Value {
	d := v.log().Minus(w.log())
	return Value{Estimate: math.Exp(d.Estimate), Low: math.Exp(d.Low), High: math.Exp(d.High), Rounds: d.Rounds}
}

func (v Value) log() Value {
	return Value{Estimate: math.Log(v.Estimate), Low: math.Log(v.Low), High: math.Log(v.High), Rounds: v.Rounds}
}

// MinRounds is how many rounds an interval needs: the values of fewer do not show how much they
// vary.
const MinRounds = 6

// Significance is the share of false ones that is accepted among the differences that are found,
// and 1 less the confidence of intervals.
const Significance = 0.05

// MinBeyond is how many requests must be slower than a quantile of their latencies. The slowest of
// a few requests say little about the slowest of many. They must be of [MinRounds] rounds, so that
// what slowed them down happened more than once.
const MinBeyond = 10

// resampled is the number of bootstrap samples.
const resampled = 1000

// statistic estimates a figure of a condition from rounds, of which each counts a number of times.
// It may be an average of what was measured in each round, or a quantile of all requests.
type statistic struct {
	rounds  []int // those with an undisturbed window, ascending
	of      func(times []int) float64
	most    float64 // values are not above
	none    float64 // what the true value is below with 95% confidence if every round has 0; 0: not known
	missing string
	looks   int // see Environment.Looks
}

// average returns the statistic that is the mean of the rounds' values, with their weights.
func average(values, weights map[int]float64) statistic {
	s := statistic{rounds: sorted(values), most: math.Inf(1)}
	s.of = func(times []int) float64 {
		sum, n := 0., 0.
		for _, round := range s.rounds {
			weight := float64(times[round]) * weights[round]
			sum, n = sum+weight*values[round], n+weight
		}
		return sum / n
	}
	return s
}

func sorted[V any](values map[int]V) []int { return slices.Sorted(maps.Keys(values)) }

// requests is a number of requests of a round that had the same latency.
type requests struct {
	latency float64 // in milliseconds
	round   int
	count   int64
}

// pooled returns the statistic that is a quantile of the latencies of all requests.
func pooled(q float64, all []requests) statistic {
	slices.SortFunc(all, func(a, b requests) int {
		return cmp.Or(cmp.Compare(b.latency, a.latency), cmp.Compare(a.round, b.round))
	})
	inRound, values, total := map[int]int64{}, map[int]float64{}, int64(0)
	for _, r := range all {
		inRound[r.round] += r.count
		values[r.round], total = 0, total+r.count
	}
	s := statistic{rounds: sorted(values), most: math.Inf(1)}
	s.of = func(times []int) float64 {
		n, beyond := int64(0), int64(0)
		for round, count := range inRound {
			n += int64(times[round]) * count
		}
		most := n - int64(math.Ceil(q*float64(n)))
		for _, r := range all {
			if beyond += int64(times[r.round]) * r.count; beyond > most {
				return r.latency
			}
		}
		return math.NaN()
	}
	s.missing = cmp.Or(tooFew(q, float64(total)), ofFewRounds(s.of(each(s.rounds)), all, len(s.rounds)))
	return s
}

// tooFew returns why there are too few requests for a quantile, "" if there are enough.
func tooFew(q, requests float64) string {
	if need := MinBeyond / (1 - q); requests < math.Floor(need) {
		return fmt.Sprintf("%.0f requests are too few, %.0f are needed", requests, need)
	}
	return ""
}

// ofFewRounds returns why the requests that took as long as a quantile, or longer, are of too few
// rounds, "" if they are of enough, or if even all rounds are too few for an interval.
func ofFewRounds(quantile float64, all []requests, rounds int) string {
	of := map[int]bool{}
	for _, r := range all {
		if r.latency >= quantile {
			of[r.round] = true
		}
	}
	if rounds < MinRounds || len(of) >= MinRounds {
		return ""
	}
	return fmt.Sprintf("those that took as long or longer are of %s only, %d are needed", quantity.Count(len(of), "round"), MinRounds)
}

// each returns how often rounds count: once.
func each(rounds []int) []int {
	times := make([]int, MaxRounds)
	for _, round := range rounds {
		times[round] = 1
	}
	return times
}

// blockLength returns how many rounds in a row are drawn together, so that a drift of the machine
// is in the samples: the third root of their number, if they are many enough for that.
func blockLength(rounds int) int {
	if rounds < 20 {
		return 1
	}
	return int(math.Round(math.Cbrt(float64(rounds))))
}

// blocks returns how many blocks rounds have.
func blocks(rounds int) float64 { return float64(rounds) / float64(blockLength(rounds)) }

// resamples returns how often rounds count in bootstrap samples: as many rounds as there are, drawn
// with replacement, in blocks. Draws are the same in each call. A sample is valid up to the next one.
func resamples(rounds []int, n int) iter.Seq[[]int] {
	return func(yield func([]int) bool) {
		random := rand.New(rand.NewPCG(1, 2))
		times := make([]int, MaxRounds)
		block := blockLength(len(rounds))
		for range n {
			clear(times)
			first := 0
			for i := range rounds {
				if i%block == 0 {
					first = random.IntN(len(rounds))
				}
				times[rounds[(first+i%block)%len(rounds)]]++
			}
			if !yield(times) {
				return
			}
		}
	}
}

// deviation returns the standard deviation of an estimate, by those from bootstrap samples of a
// number of rounds.
func deviation(estimates []float64, rounds int) float64 {
	n := float64(rounds)
	return stat.StdDev(estimates, nil) * math.Sqrt(n/(n-float64(blockLength(rounds)))) // as if divided by n-1, not n
}

// freedom returns the degrees of freedom of the deviation of an estimate: fewer than that of the
// rounds if few of them make most of it. Then it may as well be much larger: the variance of a
// variance grows with the fourth powers of what it is made of (Welch and Satterthwaite).
func freedom(rounds []int, of func(times []int) float64) float64 {
	n := float64(len(rounds))
	times := each(rounds)
	all, squares, fourths := of(times), 0., 0.
	for _, round := range rounds {
		times[round] = 0
		influence := all - of(times)
		times[round] = 1
		squares += influence * influence
		fourths += influence * influence * influence * influence
	}
	most := blocks(len(rounds)) - 1
	if f := 2 * squares * squares / (fourths - squares*squares/n); f >= 1 && f < most {
		return f
	}
	return most
}

// around returns an estimate from rounds with its interval and p, the probability of an estimate as
// far from 0 if the true value is 0. Both are by Student's t distribution, and are right for all of
// a number of looks together (Bonferroni). With too few rounds there is neither.
func around(estimate float64, rounds int, s spread, looks int) (v Value, p float64) {
	if rounds < MinRounds {
		return Value{Low: math.Inf(-1), High: math.Inf(1), Rounds: rounds, Estimate: estimate}, math.NaN()
	}
	switch {
	case estimate == 0:
		p = 1
	case s.deviation > 0:
		t := distuv.StudentsT{Sigma: 1, Nu: s.freedom}
		p = min(1, 2*t.Survival(math.Abs(estimate)/s.deviation)*Significance/significance(looks))
	}
	return Value{Estimate: estimate, Rounds: rounds, spread: s}.at(significance(looks)), p
}

// significance returns that of each of a number of looks.
func significance(looks int) float64 { return Significance / float64(max(1, looks)) }

// estimate returns an estimate from rounds, as around does, with the deviation by bootstrap.
func estimate(rounds []int, of func(times []int) float64, looks int) (v Value, p float64) {
	if len(rounds) == 0 {
		return around(math.NaN(), 0, spread{}, looks)
	}
	var s spread
	if len(rounds) >= MinRounds {
		var estimates []float64
		for times := range resamples(rounds, resampled) {
			estimates = append(estimates, of(times))
		}
		s = spread{deviation: deviation(estimates, len(rounds)), freedom: freedom(rounds, of)}
	}
	return around(of(each(rounds)), len(rounds), s, looks)
}

// exp returns the value of which another one is the logarithm.
func (v Value) exp() Value {
	v.Estimate, v.Low, v.High = math.Exp(v.Estimate), math.Exp(v.Low), math.Exp(v.High)
	v.logarithmic = true
	return v
}

// defined reports whether an estimate of a logarithm is defined, in all samples.
func (v Value) defined() bool {
	return !math.IsInf(v.Estimate, 0) && !math.IsNaN(v.Estimate) && !math.IsNaN(v.Low)
}

// value returns the estimate from all rounds.
func (s statistic) value() Value {
	if s.missing != "" {
		return Value{Estimate: math.NaN(), Low: math.Inf(-1), High: math.Inf(1), Missing: s.missing}
	}
	if v, _ := estimate(s.rounds, s.log, s.looks); v.defined() && math.IsInf(s.most, 1) {
		return v.exp()
	}
	v, _ := estimate(s.rounds, s.of, s.looks)
	if v.Low, v.High = max(0, v.Low), min(s.most, v.High); v.High == 0 {
		v.High = s.none
	}
	if !v.Bounded() || len(s.rounds) < MinRounds {
		v.Low, v.High = math.Inf(-1), math.Inf(1)
	}
	return v
}

func (s statistic) log(times []int) float64 { return math.Log(s.of(times)) }

// change returns the ratio of a statistic to that of the baseline, paired: both from the same
// rounds. p is the probability of ratios as far from 1 if the statistics do not differ. Where one
// is 0, in all rounds or in a sample of them, there is no ratio, and the sign and p are those of
// the difference.
func change(of, base statistic) (ratio Value, sign, p float64) {
	shared := slices.DeleteFunc(slices.Clone(of.rounds), func(round int) bool { return !slices.Contains(base.rounds, round) })
	if len(shared) == 0 || of.missing != "" || base.missing != "" {
		return Value{}, 0, math.NaN()
	}
	ratio, p = estimate(shared, func(times []int) float64 { return math.Log(of.of(times) / base.of(times)) }, of.looks)
	if ratio.defined() {
		return ratio.exp(), ratio.Estimate, p
	}
	difference, p := estimate(shared, func(times []int) float64 { return of.of(times) - base.of(times) }, of.looks)
	return Value{}, difference.Estimate, p
}

// needed returns about how many rounds show with a probability of 80% that a ratio is as large as a
// margin, if it is, or smaller, if it is 1, where a p up to significance counts. 0: not known.
func needed(ratio Value, margin, significance float64) int {
	if ratio.Rounds < MinRounds {
		return 0
	}
	// The deviation falls with the root of the number of rounds n, and the interval has some fewer
	// degrees of freedom than there are blocks.
	power := distuv.UnitNormal.Quantile(.9)
	for n := MinRounds; n <= MaxRounds; n++ {
		of := spread{deviation: ratio.deviation * math.Sqrt(float64(ratio.Rounds)/float64(n)), freedom: 0.7 * blocks(n)}
		if of.half(significance)+power*of.deviation <= math.Log(margin) {
			return n
		}
	}
	return MaxRounds + 1
}

// level returns the probability up to which a difference counts, so that at most the share
// [Significance] of those that count is expected to be none (Benjamini and Hochberg).
func level(ps []float64) float64 {
	slices.Sort(ps)
	found := 1
	for i, p := range ps {
		if p <= Significance*float64(i+1)/float64(len(ps)) {
			found = i + 1
		}
	}
	return Significance * float64(found) / float64(max(1, len(ps)))
}
