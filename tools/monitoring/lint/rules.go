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

// Runbook is a document, by the name that rules know it by.
type Runbook struct{ Name, Text string }

var heading = regexp.MustCompile(`(?m)^#+ (.+)$`)

// anchors are those of the sections, in the way of GitHub and most others; ours are one word.
func (r Runbook) anchors() (all []string) {
	for _, h := range heading.FindAllStringSubmatch(r.Text, -1) {
		all = append(all, r.Name+"#"+strings.ToLower(strings.ReplaceAll(h[1], " ", "-")))
	}
	return all
}

var severities = []string{"critical", "warning", "info"}

// Rules says what is wrong with a file of rules.
func Rules(text []byte, m Metrics, r Runbook) (problems []string) {
	groups, errs := rulefmt.Parse(text, false, model.LegacyValidation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	if len(errs) > 0 {
		return []string{errors.Join(errs...).Error()}
	}
	anchors := r.anchors()
	for _, g := range groups.Groups {
		for _, rule := range g.Rules {
			say := func(format string, args ...any) {
				problems = append(problems, fmt.Sprintf("alert %s: %s", rule.Alert, fmt.Sprintf(format, args...)))
			}
			for _, problem := range m.Query(rule.Expr) {
				say("%s", problem)
			}
			if !slices.Contains(severities, rule.Labels["severity"]) {
				say("its severity is %q, want one of %s", rule.Labels["severity"], strings.Join(severities, ", "))
			}
			if rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" {
				say("it needs a summary and a description")
			}
			if !slices.Contains(anchors, rule.Annotations["runbook_url"]) {
				say("its runbook_url is %q, which is no section of %s", rule.Annotations["runbook_url"], r.Name)
			}
		}
	}
	return problems
}
