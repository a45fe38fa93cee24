package experiment

import (
	"cmp"
	"math"
	"reflect"
	"slices"

	"gonum.org/v1/gonum/stat"

	"pinfold.dev/pinfold/core/trace"
)

// Comparison is a figure of a condition beside that of another one.
type Comparison struct {
	Answer
	Baseline    string
	Value, Base Value
	// Ratio is that of the values, both from the rounds that have both. It has no rounds if one of
	// them is 0, or would be in some of these rounds.
	Ratio Value
	// Sign is that of the difference of the values. P is the probability that they differ as much if
	// the conditions do not, NaN without an interval. Up to Level a difference counts.
	Sign, P, Level float64
	// Margin is that of the experiment. Needed is about how many rounds would be enough in 80% of all
	// runs: to find a difference that is as large as the margin, and, where there is no difference, to
	// show that it is smaller. It is 0 if the ratio has no interval.
	Margin float64
	Needed int
	looks  int // see Environment.Looks
	// Unlike is why the conditions cannot be compared, "" if they can.
	Unlike string
}

// Verdict is what a comparison says.
type Verdict int

// The verdicts.
const (
	Unknown Verdict = iota // cannot conclude
	Lower
	Higher
	Alike // no difference larger than the margin
)

// DefaultMargin is a ratio up to which figures do not differ in practice.
const DefaultMargin = 1.05

// Verdict returns whether the figure is higher or lower than that of the baseline. A small
// difference that counts is one.
func (c Comparison) Verdict() Verdict {
	switch {
	case c.Unlike != "":
		return Unknown
	case !(c.P <= c.Level): // NaN is not
		if c.Ratio.Rounds > 0 && c.Ratio.Low >= 1/c.Margin && c.Ratio.High <= c.Margin {
			return Alike
		}
		return Unknown
	case c.Sign > 0:
		return Higher
	}
	return Lower
}

// AtLevel returns the comparison as one of several of which a difference counts up to a level. The
// interval of its ratio is that of this level, so that it does not contain 1 if the difference
// counts, and 95% of the intervals of such ratios contain the true one (Benjamini and Yekutieli).
func (c Comparison) AtLevel(level float64) Comparison {
	c.Level = level
	if c.Ratio.Rounds > 0 {
		level /= float64(max(1, c.looks))
		c.Ratio, c.Needed = c.Ratio.at(level), needed(c.Ratio, c.Margin, level)
	}
	return c
}

// Compare compares a figure of a condition with that of its baseline.
func (r Result) Compare(a Answer) Comparison {
	a.Load = r.load(a.Load)
	return newComparer(r).compare(a)
}

// Comparisons returns the comparisons of all conditions under all loads.
func (r Result) Comparisons(figures []Figure) map[Answer]Comparison {
	c, all := newComparer(r), map[Answer]Comparison{}
	loads := []string{""}
	if len(r.Config.Loads) > 0 {
		loads, _ = names("load", r.Config.Loads, func(l Load) string { return l.Name })
	}
	for _, f := range figures {
		for _, condition := range r.Config.Conditions {
			for _, load := range loads {
				a := Answer{f, condition.Name, load}
				all[a] = c.compare(a)
			}
		}
	}
	return all
}

// SameWork reports whether the conditions of an answer ran the same programs, settings and load in
// another run, on as many CPUs. Their versions, how long they ran before windows, and how long these
// were, may differ.
func (r Result) SameWork(other Result, a Answer) bool {
	setup := func(r Result, condition string) *Setup {
		all, err := r.Config.Setups(r.Environment.CPUs)
		i := slices.IndexFunc(all, func(s Setup) bool {
			return s.Condition == condition && (s.Load == nil || s.Load.Name == r.load(a.Load))
		})
		if err != nil || i < 0 {
			return nil
		}
		all[i].Settle = 0
		return &all[i]
	}
	for _, condition := range []string{a.Condition, r.Baseline(a.Condition)} {
		s := setup(r, condition)
		if s == nil || !reflect.DeepEqual(s, setup(other, condition)) {
			return false
		}
		var programs []Program
		for _, service := range s.Services {
			programs = append(programs, service.Program)
		}
		if s.Load != nil {
			if r.Environment.Arrivals != other.Environment.Arrivals {
				return false
			}
			programs = append(programs, Program(s.Load.Client)) // wrk is one
		}
		for _, p := range programs {
			if r.Environment.replaced(p) != other.Environment.replaced(p) {
				return false
			}
		}
	}
	return r.Baseline(a.Condition) == other.Baseline(a.Condition) && r.Environment.CPUs == other.Environment.CPUs
}

// likeUsage is how much the usage of a service may differ between two runs of the same requests, as a
// ratio.
const likeUsage = 1.1

// Usage returns how many CPUs the first service used in the baseline of an answer, here and in another
// run, and whether planned requests were about the same work in both. They need not be: how much CPU
// time a request takes is found out, or depends on the machine.
func (r Result) Usage(other Result, a Answer) (here, there float64, alike bool) {
	used := func(r Result) float64 {
		sum, n := 0., 0.
		for _, w := range r.Windows {
			if w.Disturbed == "" && w.Condition == r.Baseline(a.Condition) && w.Load == r.load(a.Load) {
				sum, n = sum+w.Figures[Used], n+1
			}
		}
		return sum / n
	}
	here, there = used(r), used(other)
	return here, there, !r.planned(r.load(a.Load)) || !(max(here, there) > likeUsage*min(here, there)) // NaN is not above
}

// Unanswered returns the answers of the experiment for which it cannot conclude and more rounds may
// help.
func (r Result) Unanswered() (all []Answer) {
	c := newComparer(r)
	for _, a := range r.Config.Answers {
		a.Load = r.load(a.Load)
		if one := c.compare(a); one.Unlike == "" && one.Verdict() == Unknown {
			all = append(all, a)
		}
	}
	return all
}

// comparer compares conditions. It reads the latencies of each window once.
type comparer struct {
	Result
	latencies  [][]requests // of each window; nil if they are not known
	statistics map[Answer]statistic
	values     map[Answer]Value
}

func newComparer(r Result) *comparer {
	c := &comparer{Result: r, statistics: map[Answer]statistic{}, values: map[Answer]Value{}}
	for _, w := range r.Windows {
		c.latencies = append(c.latencies, w.requests())
	}
	return c
}

func (c *comparer) compare(a Answer) Comparison {
	base := Answer{a.Figure, c.Baseline(a.Condition), a.Load}
	one := Comparison{Answer: a, Baseline: base.Condition, Value: c.value(a), Base: c.value(base), Level: Significance}
	one.Ratio, one.Sign, one.P = change(c.statistic(a), c.statistic(base))
	one.Unlike, one.Margin = c.unlike(one), cmp.Or(c.Config.Margin, DefaultMargin)
	one.looks = c.Environment.Looks
	one.Needed = needed(one.Ratio, one.Margin, significance(one.looks))
	return one
}

func (c *comparer) value(a Answer) Value {
	v, ok := c.values[a]
	if !ok {
		v = c.statistic(a).value()
		c.values[a] = v
	}
	return v
}

func (c *comparer) statistic(a Answer) statistic {
	s, ok := c.statistics[a]
	if !ok {
		s = c.newStatistic(a)
		s.looks = c.Environment.Looks
		c.statistics[a] = s
	}
	return s
}

// newStatistic returns the statistic of a figure in the undisturbed windows of a condition.
// Latencies are those of all requests. Where these are not known, as with wrk, a quantile is the
// average of the windows' quantiles.
func (c *comparer) newStatistic(a Answer) statistic {
	values, weights := map[int]float64{}, map[int]float64{}
	var all []requests
	answered, periods, known := 0., 0., true
	for i, w := range c.Windows {
		value, ok := w.Figures[a.Figure]
		if !ok || w.Disturbed != "" || w.Condition != a.Condition || w.Load != a.Load {
			continue
		}
		values[w.Round] = value
		for _, r := range c.latencies[i] {
			weights[w.Round] += float64(r.count)
		}
		known, all = known && c.latencies[i] != nil, append(all, c.latencies[i]...)
		took := w.To - w.From
		answered += w.Figures[Calls] * took.Seconds()
		periods += float64(took) / float64(trace.DefaultPeriod)
	}
	q, isQuantile := quantiles()[a.Figure]
	if isQuantile && known && len(all) > 0 {
		return pooled(q, all)
	}
	for round := range values {
		if a.Figure != Mean || !known {
			weights[round] = 1
		} else if weights[round] == 0 { // nothing was answered
			delete(values, round)
		}
	}
	s := average(values, weights)
	if isQuantile && answered > 0 {
		s.missing = tooFew(q, answered)
	}
	if Figures()[a.Figure].Unit == Share {
		s.most = 1
	}
	if periods > 0 && (a.Figure == Full || a.Figure == Throttled && c.limited(a.Condition)) {
		s.none = 3 * c.clustering(a) / periods // rule of three
	}
	return s
}

// clustering returns how much more the share of an answer varies between rounds than if periods were
// independent of each other. It is that of the condition in which this is most.
func (c *comparer) clustering(a Answer) float64 {
	most := 1.
	for _, condition := range c.Config.Conditions {
		var shares []float64
		periods := 0.
		for _, w := range c.Windows {
			if share, ok := w.Figures[a.Figure]; ok && w.Disturbed == "" && w.Condition == condition.Name && w.Load == a.Load {
				shares = append(shares, share)
				periods += float64(w.To-w.From) / float64(trace.DefaultPeriod)
			}
		}
		if mean, variance := stat.MeanVariance(shares, nil); len(shares) >= MinRounds && mean > 0 && mean < 1 {
			most = max(most, variance*periods/float64(len(shares))/(mean*(1-mean)))
		}
	}
	return most
}

// limited reports whether the first service has a limit.
func (c *comparer) limited(condition string) bool {
	s, err := c.First(condition)
	return err == nil && s.Limits().Quota > 0
}

// Level returns the probability up to which the difference of a comparison counts if a reader sees
// all of these: of the differences that count, [Significance] are expected to be none (Benjamini
// and Hochberg).
func Level(all []Comparison) float64 {
	var ps []float64
	for _, c := range all {
		if c.Unlike == "" && c.Condition != c.Baseline && !math.IsNaN(c.P) {
			ps = append(ps, c.P)
		}
	}
	return level(ps)
}

// Baseline returns the condition that a condition is compared with.
func (r Result) Baseline(condition string) string {
	for _, c := range r.Config.Conditions {
		if c.Name == condition && c.Baseline != "" {
			return c.Baseline
		}
	}
	return r.Config.Conditions[0].Name
}

// load returns the name of a load, the first if it is "".
func (r Result) load(name string) string {
	if name == "" && len(r.Config.Loads) > 0 {
		return r.Config.Loads[0].Name
	}
	return name
}
