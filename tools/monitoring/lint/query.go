// Package lint checks Grafana dashboards and Prometheus alert rules for mistakes.
//
// For each query, in dashboards and rules, it checks that
//
//   - the query parses;
//   - it names only metrics that are exposed, according to a file of metrics, and only labels and
//     label values that these have (any reason may be named, because the file does not list all);
//   - counters are used through rate or increase, and gauges are not;
//   - an aggregation keeps only existing labels, and histogram_quantile gets le.
//
// For dashboards it also checks that
//
//   - every panel has a title, a description, a unit, queries, its own place in the grid, its own
//     ID and the selected data source;
//   - every selector has the matchers of job and instance, and every range is $__rate_interval;
//   - variables query the selected data source and are refreshed when the time range changes, all
//     variables that are named exist, and all that exist are used; the job is never all jobs.
//
// For alerts it also checks that each has a severity, a summary, a description, and a section in
// the runbook.
package lint

import (
	"fmt"
	"io"
	"slices"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// Metrics are the known series by name.
type Metrics map[string]*series

// series describes the series of one name.
type series struct {
	counts bool                       // whether they are counters
	labels map[string]map[string]bool // the values of each label
}

// freeLabel is a label that may have values that are not in the file of metrics.
const freeLabel = "reason"

// ParseMetrics parses exposed metrics. It adds those of Prometheus and of Go's process collector.
func ParseMetrics(text io.Reader) (Metrics, error) {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(text)
	if err != nil {
		return nil, fmt.Errorf("read the exposed metrics: %w", err)
	}
	all := Metrics{}
	all.add("up", false, nil)
	all.add("process_cpu_seconds_total", true, nil)
	all.add("process_resident_memory_bytes", false, nil)
	for name, family := range families {
		for _, m := range family.GetMetric() {
			switch family.GetType() {
			case dto.MetricType_HISTOGRAM:
				all.add(name+"_sum", true, m.GetLabel())
				all.add(name+"_count", true, m.GetLabel())
				all.add(name+"_bucket", true, m.GetLabel())
				all[name+"_bucket"].labels["le"] = map[string]bool{}
			case dto.MetricType_COUNTER:
				all.add(name, true, m.GetLabel())
			default:
				all.add(name, false, m.GetLabel())
			}
		}
	}
	return all, nil
}

// add adds a series. Prometheus adds the labels job and instance to each.
func (m Metrics) add(name string, counts bool, labels []*dto.LabelPair) {
	s := m[name]
	if s == nil {
		s = &series{counts: counts, labels: map[string]map[string]bool{"job": {}, "instance": {}}}
		m[name] = s
	}
	for _, l := range labels {
		if s.labels[l.GetName()] == nil {
			s.labels[l.GetName()] = map[string]bool{}
		}
		s.labels[l.GetName()][l.GetValue()] = true
	}
}

// has reports whether there is a series whose label has a value.
func (s *series) has(label, value string) bool {
	values := s.labels[label]
	return label == freeLabel || len(values) == 0 || values[value]
}

// Query returns the problems of a query, which must not contain Grafana's variables.
func (m Metrics) Query(text string) (problems []string) {
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	if err != nil {
		return []string{err.Error()}
	}
	report := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	parser.Inspect(expr, func(node parser.Node, path []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			m.selector(n, path, report)
		case *parser.AggregateExpr:
			m.kept(n.Grouping, n.Expr, report)
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				m.kept(n.VectorMatching.MatchingLabels, n.LHS, report)
				m.kept(n.VectorMatching.MatchingLabels, n.RHS, report)
			}
		case *parser.Call:
			if n.Func.Name == "histogram_quantile" && !m.keepsBounds(n.Args[1]) {
				report("histogram_quantile needs the label le, which %s does not have", n.Args[1])
			}
		}
		return nil
	})
	return problems
}

func (m Metrics) selector(n *parser.VectorSelector, path []parser.Node, report func(string, ...any)) {
	s := m[n.Name]
	if s == nil {
		report("there is no metric %q", n.Name)
		return
	}
	for _, matcher := range n.LabelMatchers {
		switch values := s.labels[matcher.Name]; {
		case matcher.Name == model.MetricNameLabel:
		case values == nil:
			report("%s has no label %q", n.Name, matcher.Name)
		case matcher.Type == labels.MatchEqual && !s.has(matcher.Name, matcher.Value):
			report("the label %s of %s is never %q", matcher.Name, n.Name, matcher.Value)
		}
	}
	if rated := isRated(path); s.counts && !rated {
		report("%s is a counter: use rate or increase", n.Name)
	} else if !s.counts && rated {
		report("%s is a gauge: it has no rate", n.Name)
	}
}

// isRated reports whether the innermost function around a selector is rate or increase.
func isRated(path []parser.Node) bool {
	for _, node := range slices.Backward(path) {
		switch n := node.(type) {
		case *parser.Call:
			return n.Func.Name == "rate" || n.Func.Name == "increase"
		case *parser.AggregateExpr, *parser.BinaryExpr:
			return false
		}
	}
	return false
}

// kept reports labels that no series of an expression has.
func (m Metrics) kept(named []string, of parser.Expr, report func(string, ...any)) {
	for _, label := range named {
		found := false
		parser.Inspect(of, func(node parser.Node, _ []parser.Node) error {
			if n, ok := node.(*parser.VectorSelector); ok {
				s := m[n.Name]
				found = found || s == nil || s.labels[label] != nil // unknown metrics were already reported
			}
			return nil
		})
		if !found {
			report("%s has no label %q", of, label)
		}
	}
}

// keepsBounds reports whether an expression has the label le of a histogram's buckets, and no
// aggregation removes it.
func (m Metrics) keepsBounds(of parser.Expr) bool {
	keeps := true
	parser.Inspect(of, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.AggregateExpr:
			keeps = keeps && slices.Contains(n.Grouping, "le") != n.Without
		case *parser.VectorSelector:
			s := m[n.Name]
			keeps = keeps && (s == nil || s.labels["le"] != nil)
		}
		return nil
	})
	return keeps
}
