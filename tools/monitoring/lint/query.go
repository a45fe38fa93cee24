package lint

import (
	"fmt"
	"slices"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// Query says what is wrong with a query, which must be of Prometheus' language alone.
func (m Metrics) Query(text string) (problems []string) {
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	if err != nil {
		return []string{err.Error()}
	}
	say := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	parser.Inspect(expr, func(node parser.Node, path []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			m.selector(n, path, say)
		case *parser.AggregateExpr:
			m.kept(n.Grouping, n.Expr, say)
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				m.kept(n.VectorMatching.MatchingLabels, n.LHS, say)
				m.kept(n.VectorMatching.MatchingLabels, n.RHS, say)
			}
		case *parser.Call:
			if n.Func.Name == "histogram_quantile" && !m.keepsBounds(n.Args[1]) {
				say("histogram_quantile needs the label le, which %s does not have", n.Args[1])
			}
		}
		return nil
	})
	return problems
}

func (m Metrics) selector(n *parser.VectorSelector, path []parser.Node, say func(string, ...any)) {
	s := m[n.Name]
	if s == nil {
		say("there is no metric %q", n.Name)
		return
	}
	for _, matcher := range n.LabelMatchers {
		switch values := s.labels[matcher.Name]; {
		case matcher.Name == model.MetricNameLabel:
		case values == nil:
			say("%s has no label %q", n.Name, matcher.Name)
		case matcher.Type == labels.MatchEqual && !s.has(matcher.Name, matcher.Value):
			say("the label %s of %s is never %q", matcher.Name, n.Name, matcher.Value)
		}
	}
	if rated := isRated(path); s.counts && !rated {
		say("%s only grows: take its rate or increase", n.Name)
	} else if !s.counts && rated {
		say("%s goes up and down: it has no rate", n.Name)
	}
}

// isRated reports whether the innermost call around a selector is one for counters.
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

// kept says which labels are named and are on no series of an expression.
func (m Metrics) kept(named []string, of parser.Expr, say func(string, ...any)) {
	for _, label := range named {
		found := false
		parser.Inspect(of, func(node parser.Node, _ []parser.Node) error {
			if n, ok := node.(*parser.VectorSelector); ok {
				s := m[n.Name]
				found = found || s == nil || s.labels[label] != nil // what is not known is said once
			}
			return nil
		})
		if !found {
			say("%s has no label %q", of, label)
		}
	}
}

// keepsBounds reports whether the bounds of a histogram's buckets are there, and no
// aggregation takes them away.
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

// countSelectors counts the selectors of a query that parses.
func countSelectors(text string) (n int) {
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	if err != nil {
		return 0
	}
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if _, ok := node.(*parser.VectorSelector); ok {
			n++
		}
		return nil
	})
	return n
}
