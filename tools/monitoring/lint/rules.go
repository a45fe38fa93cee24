package lint

import (
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

// Runbook is a document with the name that rules use for it.
type Runbook struct{ Name, Text string }

var heading = regexp.MustCompile(`(?m)^#+ (.+)$`)

// anchors returns the links to the sections, in GitHub's format for headings of one word.
func (r Runbook) anchors() (all []string) {
	for _, h := range heading.FindAllStringSubmatch(r.Text, -1) {
		all = append(all, r.Name+"#"+strings.ToLower(strings.ReplaceAll(h[1], " ", "-")))
	}
	return all
}

var severities = []string{"critical", "warning", "info"}

// Rules returns the problems of a file of rules.
func Rules(text []byte, m Metrics, r Runbook) (problems []string) {
	groups, errs := rulefmt.Parse(text, false, model.LegacyValidation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	if len(errs) > 0 {
		return []string{errors.Join(errs...).Error()}
	}
	anchors := r.anchors()
	for _, g := range groups.Groups {
		for _, rule := range g.Rules {
			report := func(format string, args ...any) {
				problems = append(problems, fmt.Sprintf("alert %s: %s", rule.Alert, fmt.Sprintf(format, args...)))
			}
			for _, problem := range m.Query(rule.Expr) {
				report("%s", problem)
			}
			if !slices.Contains(severities, rule.Labels["severity"]) {
				report("its severity is %q, want one of %s", rule.Labels["severity"], strings.Join(severities, ", "))
			}
			if rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" {
				report("it needs a summary and a description")
			}
			if !slices.Contains(anchors, rule.Annotations["runbook_url"]) {
				report("its runbook_url is %q, want a section of %s", rule.Annotations["runbook_url"], r.Name)
			}
		}
	}
	return problems
}
