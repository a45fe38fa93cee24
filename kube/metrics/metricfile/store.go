package metricfile

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"pinfold.dev/pinfold/kube/metrics"
)

// MaxMemory is how much memory a store takes for series, in bytes.
const MaxMemory = 1 << 30

// Store is the series of files.
type Store struct {
	wanted   map[string]bool // metrics
	series   map[uint64][]*series
	byName   map[string][]*series // after Options
	bytes    int64                // of memory
	limit    int64
	engine   *promql.Engine  // after Options
	found    map[string]bool // the names of all metrics in the files; "" is of series without a name
	Warnings []string        // of the server, of which some are kept
	// How many samples were left out, and kept.
	Histograms, NotNumbers, samples int
}

// New returns an empty store, which keeps the series of some metrics.
func New(metrics []string) *Store {
	s := &Store{wanted: map[string]bool{}, series: map[uint64][]*series{}, found: map[string]bool{}, limit: MaxMemory}
	for _, name := range metrics {
		s.wanted[name] = true
	}
	return s
}

// open returns the series with some labels, or nil if it is not wanted.
func (s *Store) open(l labels.Labels) *series {
	name := l.Get(model.MetricNameLabel)
	if len(s.found) < 1000 {
		s.found[name] = true
	}
	if !s.wanted[name] {
		return nil
	}
	hash := l.Hash()
	for _, one := range s.series[hash] {
		if labels.Equal(one.labels, l) {
			return one
		}
	}
	one := &series{labels: l}
	s.series[hash] = append(s.series[hash], one)
	return one
}

var errTooLarge = fmt.Errorf("the series need more than %d GiB of memory: ask for fewer namespaces, a shorter time or a larger step", MaxMemory>>30)

// count counts the memory of a series after more of it was read. nil has none.
func (s *Store) count(one *series) error {
	if one == nil {
		return nil
	}
	n := one.size()
	s.bytes, one.bytes = s.bytes+n-one.bytes, n
	if s.bytes > s.limit {
		return errTooLarge
	}
	return nil
}

// add adds a sample to a series, unless it is not a number.
func (s *Store) add(one *series, t int64, v float64) error {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		s.NotNumbers++
		return nil
	}
	one.add(t, v)
	if s.samples++; s.samples%10_000 == 0 {
		return s.count(one)
	}
	return nil
}

// Options completes options by what the files have: their end, their time if there is less of it,
// the time between samples, and the counter that shows which containers ran.
func (s *Store) Options(o metrics.Options) (metrics.Options, error) {
	s.byName = map[string][]*series{}
	for _, same := range s.series {
		for _, one := range same {
			if len(one.chunks) > 0 {
				name := one.labels.Get(model.MetricNameLabel)
				s.byName[name] = append(s.byName[name], one)
			}
		}
	}
	named := func(metric string) string { return cmp.Or(o.Names[metric], metric) }
	counters := []string{metrics.Usage, metrics.ThrottledPeriods, metrics.Periods, metrics.ThrottledSeconds}
	var all []*series
	for _, metric := range counters {
		containers := slices.DeleteFunc(slices.Clone(s.byName[named(metric)]), func(one *series) bool {
			return one.labels.Get("namespace") == "" || one.labels.Get("pod") == "" || one.labels.Get("container") == ""
		})
		if o.Counter == "" && len(containers) > 0 {
			o.Counter = metric
		}
		all = append(all, containers...)
	}
	if len(all) == 0 {
		return o, s.nothing(named(metrics.Usage))
	}
	first, last := all[0].first, all[0].last
	for _, one := range all {
		first, last = min(first, one.first), max(last, one.last)
	}
	o.Step, o.End = step(all), time.UnixMilli(last)
	span := min(o.End.Sub(time.UnixMilli(first)), metrics.MaxSince)
	if o.Since == 0 || o.Since > span {
		o.Since = span
	}
	if o.Since < max(metrics.MinSince, 2*o.Step) {
		return o, fmt.Errorf("a time of %v is too short: ask query_range for an hour or more, with start, end and step", o.Since)
	}
	// A container counts however long ago it ended.
	s.engine = promql.NewEngine(promql.EngineOpts{MaxSamples: 50_000_000, Timeout: 24 * time.Hour, LookbackDelta: o.Since, Parser: parser.NewParser(parser.Options{})})
	return o, nil
}

// Missing returns the metrics that the data should have, and does not, by their own names.
func (s *Store) Missing(o metrics.Options) (names []string) {
	for _, metric := range []string{metrics.Usage, metrics.Periods, metrics.ThrottledPeriods, metrics.ThrottledSeconds, metrics.Limits, metrics.Requests, metrics.PodOwner} {
		if len(s.byName[cmp.Or(o.Names[metric], metric)]) == 0 {
			names = append(names, metric)
		}
	}
	return names
}

// Query is what to ask a server for.
const Query = `{__name__=~"container_cpu_.*|container_spec_cpu_.*|kube_pod_(container_resource_.*|owner|labels)|kube_(replicaset|job)_owner"}`

// nothing returns why no container was found.
func (s *Store) nothing(usage string) error {
	names := slices.Sorted(maps.Keys(s.found))
	ask := fmt.Sprintf("ask query_range for '%s', with a step of 1m or less", Query)
	switch {
	case s.NotNumbers > 0 && len(s.byName) == 0:
		return fmt.Errorf("all values are NaN or infinite: %s", ask)
	case len(names) == 0:
		return fmt.Errorf("there are no series: the query matched nothing in its time; %s", ask)
	case slices.ContainsFunc(names, func(name string) bool {
		return s.wanted[name] && s.byName[name] != nil && strings.HasPrefix(name, "container_") || name == usage
	}):
		return fmt.Errorf("the series are of no container: they must have the labels namespace, pod and container; %s, without sum or by", ask)
	case names[0] == "":
		return fmt.Errorf("series have no name, as those of rate() and sum(): the counters themselves are needed; %s", ask)
	}
	return fmt.Errorf("there is no %s, but %s: %s", usage, strings.Join(names[:min(len(names), 5)], ", "), ask)
}

// step is the time between samples: the largest of those that series usually have.
func step(all []*series) time.Duration {
	var largest, ofFew int64
	for _, one := range all {
		var gaps []int64
		it, before := one.Iterator(nil), int64(-1)
		for len(gaps) < 1000 && it.Next() != 0 {
			t := it.AtT()
			if before >= 0 {
				gaps = append(gaps, t-before)
			}
			before = t
		}
		if len(gaps) == 0 {
			continue
		}
		slices.Sort(gaps)
		usual := gaps[len(gaps)/2]
		if ofFew = max(ofFew, usual); len(gaps) >= 10 {
			largest = max(largest, usual)
		}
	}
	seconds := (cmp.Or(largest, ofFew) + 500) / 1000 // scrapes are late by milliseconds
	return time.Duration(max(seconds, 1)) * time.Second
}

// QueryRange answers a query.
func (s *Store) QueryRange(ctx context.Context, query string, r promv1.Range, _ ...promv1.Option) (model.Value, promv1.Warnings, error) {
	q, err := s.engine.NewRangeQuery(ctx, s, nil, query, r.Start, r.End, r.Step)
	if err != nil {
		return nil, nil, &promv1.Error{Type: promv1.ErrBadData, Msg: err.Error()}
	}
	defer q.Close()
	result := q.Exec(ctx)
	found, err := result.Matrix()
	if err != nil {
		return nil, nil, &promv1.Error{Type: promv1.ErrExec, Msg: err.Error()}
	}
	var out model.Matrix
	for _, one := range found {
		stream := &model.SampleStream{Metric: model.Metric{}}
		one.Metric.Range(func(l labels.Label) { stream.Metric[model.LabelName(l.Name)] = model.LabelValue(l.Value) })
		for _, p := range one.Floats {
			stream.Values = append(stream.Values, model.SamplePair{Timestamp: model.Time(p.T), Value: model.SampleValue(p.F)})
		}
		out = append(out, stream)
	}
	return out, nil, nil
}

// Querier returns the store itself, for the query engine.
func (s *Store) Querier(_, _ int64) (storage.Querier, error) { return querier{s, nil}, nil }

// querier selects series; there are no other queries.
type querier struct {
	*Store
	storage.LabelQuerier
}

func (querier) Close() error { return nil }

func (q querier) Select(_ context.Context, sorted bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	var found []storage.Series
	for name, all := range q.byName {
		for _, one := range all {
			if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(one.labels.Get(m.Name)) }) {
				found = append(found, one)
			} else if slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return m.Name == model.MetricNameLabel && !m.Matches(name) }) {
				break
			}
		}
	}
	if sorted {
		slices.SortFunc(found, func(a, b storage.Series) int { return labels.Compare(a.Labels(), b.Labels()) })
	}
	return &seriesSet{found, -1}
}

// seriesSet goes through series.
type seriesSet struct {
	series []storage.Series
	at     int
}

func (s *seriesSet) Next() bool                        { s.at++; return s.at < len(s.series) }
func (s *seriesSet) At() storage.Series                { return s.series[s.at] }
func (s *seriesSet) Err() error                        { return nil }
func (s *seriesSet) Warnings() annotations.Annotations { return nil }
