package lint

import (
	"fmt"
	"io"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Metrics are the series that may be named.
type Metrics map[string]*series

// series is what is known of those of one name.
type series struct {
	counts bool                       // they only grow
	labels map[string]map[string]bool // the values of each label
}

// freeLabel may have values that are not in the file of metrics.
const freeLabel = "reason"

// ParseMetrics reads metrics as they are exposed. Those that Prometheus and Go's process
// collector add are known without.
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

// add takes in one series. Prometheus gives each the labels of what it scrapes.
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
