package metrics

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Label is a label of pods with a value, or with any if that is "".
type Label struct{ Key, Value string }

// validate returns an error for a label that no pod can have.
func (l Label) validate() error {
	if problems := append(validation.IsQualifiedName(l.Key), validation.IsValidLabelValue(l.Value)...); len(problems) > 0 {
		return fmt.Errorf("label %s=%s: %s", l.Key, l.Value, strings.Join(problems, "; "))
	}
	return nil
}

// name is the label's name in metrics of kube-state-metrics: internal/store/utils.go there.
func (l Label) name() string {
	name := regexp.MustCompile(`[^a-zA-Z0-9_]`).ReplaceAllString(l.Key, "_")
	return "label_" + strings.ToLower(regexp.MustCompile(`([a-z0-9])([A-Z])`).ReplaceAllString(name, "${1}_${2}"))
}

// Remedy says how kube-state-metrics exports the label.
func (l Label) Remedy() string {
	return fmt.Sprintf("it exports labels that are listed, with --metric-labels-allowlist=pods=[%s]", l.Key)
}

// Knows reports whether a pod has the label, with any value. It is an error if no labels are stored
// at all.
func (p *Plan) Knows(ctx context.Context, s Server, l Label) (bool, error) {
	query := fmt.Sprintf("group by (%s) (last_over_time(%s[%ds]))", l.name(), p.selector(PodLabels, nil), int(p.Slice.Seconds()))
	found, warnings, err := p.ask(ctx, s, query)
	if err != nil {
		return false, err
	}
	p.Warnings = append(p.Warnings, warnings...)
	if len(found) == 0 {
		return false, fmt.Errorf("%s has no %s of kube-state-metrics: %s", p.Options.Source, p.name(PodLabels), l.Remedy())
	}
	for _, series := range found {
		if len(series.Metric) > 0 {
			return true, nil
		}
	}
	return false, nil
}

// labelled returns the queries for the pods that have labels to exclude.
func (p *Plan) labelled(b Batch) (queries []string) {
	for _, l := range p.Options.Exclude {
		matcher := fmt.Sprintf("%s=%q", l.name(), l.Value)
		if l.Value == "" {
			matcher = l.name() + `!=""`
		}
		queries = append(queries, fmt.Sprintf("group by (namespace, pod) (last_over_time(%s[%ds]))", p.selector(PodLabels, b.Namespaces, matcher), int(p.Slice.Seconds())))
	}
	return queries
}

// excluded returns the pods that have labels to exclude.
func (p *Plan) excluded(ctx context.Context, s Server, b Batch, found *Found) (map[object]bool, error) {
	pods := map[object]bool{}
	for _, query := range p.labelled(b) {
		matrix, warnings, err := p.ask(ctx, s, query)
		if err != nil {
			return nil, err
		}
		found.Warnings = append(found.Warnings, warnings...)
		for _, series := range matrix {
			pods[object{"Pod", string(series.Metric["namespace"]), string(series.Metric["pod"])}] = true
		}
	}
	return pods, nil
}
