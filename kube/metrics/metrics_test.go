package metrics

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
)

// answers is a server that gives the same answer to all queries that contain a text, or the longest of
// several. tools/monitoring tests the queries with a real one.
type answers struct {
	to     map[string]model.Value
	refuse func(query string) error
	// exported says that labels of kube-state-metrics were replaced.
	exported bool
	asked    []string
}

func (s *answers) QueryRange(_ context.Context, query string, _ promv1.Range, _ ...promv1.Option) (model.Value, promv1.Warnings, error) {
	s.asked = append(s.asked, query)
	if s.refuse != nil {
		if err := s.refuse(query); err != nil {
			return nil, nil, err
		}
	}
	if strings.Contains(query, "exported_pod") && s.exported {
		return model.Matrix{series(model.Metric{}, 1)}, nil, nil
	}
	answer, longest := model.Value(model.Matrix{}), ""
	for text, value := range s.to {
		if strings.Contains(query, text) && !strings.Contains(query, "exported_pod") && len(text) > len(longest) {
			answer, longest = value, text
		}
	}
	return answer, nil, nil
}

var end = time.Unix(1_800_000_000, 0)

func options() Options { return Options{End: end, Since: 7 * 24 * time.Hour} }

// series has one value for each of the last days.
func series(labels model.Metric, values ...float64) *model.SampleStream {
	s := &model.SampleStream{Metric: labels}
	for i, v := range values {
		at := end.Add(-time.Duration(len(values)-1-i) * 24 * time.Hour)
		s.Values = append(s.Values, model.SamplePair{Timestamp: model.TimeFromUnix(at.Unix()), Value: model.SampleValue(v)})
	}
	return s
}

// counts is the answer to the query for the number of containers of namespaces.
func counts(of map[string]float64) map[string]model.Value {
	var m model.Matrix
	for namespace, n := range of {
		m = append(m, series(model.Metric{"namespace": model.LabelValue(namespace)}, n))
	}
	return map[string]model.Value{"count by (namespace, cluster": m}
}

func TestBatches(t *testing.T) {
	s := &answers{to: counts(map[string]float64{"a": 600, "b": 300, "c": 200, "d": 5000, "e": 1, "f": 2})}
	plan, err := NewPlan(t.Context(), s, options())
	if err != nil {
		t.Fatal(err)
	}
	want := []Batch{{[]string{"a", "b"}, 900}, {[]string{"c"}, 200}, {[]string{"d"}, 5000}, {[]string{"e", "f"}, 3}}
	if d := cmp.Diff(want, plan.Batches); d != "" {
		t.Error(d)
	}
	if plan.Slices != 7 || plan.Slice != 24*time.Hour {
		t.Errorf("%d slices of %v", plan.Slices, plan.Slice)
	}
}

// TestSlices checks how a time is divided. Little of it is left out.
func TestSlices(t *testing.T) {
	for since, want := range map[time.Duration]Plan{
		7 * 24 * time.Hour: {Slices: 7, Slice: 24 * time.Hour, Window: 5 * time.Minute},
		24 * time.Hour:     {Slices: 7, Slice: 205 * time.Minute, Window: 5 * time.Minute},
		time.Hour:          {Slices: 3, Slice: 20 * time.Minute, Window: 5 * time.Minute},
		30 * time.Minute:   {Slices: 7, Slice: 4 * time.Minute, Window: 2 * time.Minute},
		5 * time.Minute:    {Slices: 5, Slice: time.Minute, Window: time.Minute},
		MinSince:           {Slices: 3, Slice: time.Minute, Window: time.Minute},
	} {
		plan, err := NewPlan(t.Context(), &answers{to: counts(map[string]float64{"a": 1})}, Options{End: end, Since: since})
		if err != nil || plan.Slices != want.Slices || plan.Slice != want.Slice || plan.Window != want.Window {
			t.Errorf("%v: %d slices of %v, windows of %v (%v); want %d of %v, %v", since, plan.Slices, plan.Slice, plan.Window, err, want.Slices, want.Slice, want.Window)
		}
	}
}

// TestTooManySamples checks that a batch is divided until the server accepts its queries.
func TestTooManySamples(t *testing.T) {
	many := &promv1.Error{Type: promv1.ErrExec, Msg: "query processing would load too many samples into memory in query execution"}
	s := &answers{to: counts(map[string]float64{"a": 1, "b": 1, "c": 1, "d": 1}), refuse: func(query string) error {
		if strings.Contains(query, "|") {
			return many
		}
		return nil
	}}
	plan, err := NewPlan(t.Context(), s, options())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := plan.Read(t.Context(), s, plan.Batches[0]); err != nil {
		t.Error(err)
	}
	for _, namespace := range []string{"a", "b", "c", "d"} {
		if text := fmt.Sprintf("namespace=~%q", namespace); !strings.Contains(strings.Join(s.asked, "\n"), text) {
			t.Errorf("no query was about %s alone", namespace)
		}
	}
	s.refuse = func(query string) error {
		if strings.Contains(query, `"c"`) || strings.Contains(query, "|") {
			return many
		}
		return nil
	}
	if _, err := plan.Read(t.Context(), s, plan.Batches[0]); err == nil || !strings.Contains(err.Error(), "namespace c alone") || !strings.Contains(err.Error(), "--since") {
		t.Errorf("a namespace that is too large: %v", err)
	}
}

func TestWhyNothing(t *testing.T) {
	one := model.Matrix{series(model.Metric{}, 5)}
	failed := errors.New("connection refused")
	for name, test := range map[string]struct {
		server  *answers
		options Options
		want    string
	}{
		"no metric":           {&answers{}, options(), "--metric container_cpu_usage_seconds_total=NAME"},
		"without container":   {&answers{to: map[string]model.Value{"count({": one}}, options(), "must have the labels namespace, pod and container"},
		"no such namespace":   {&answers{to: map[string]model.Value{"count({": one}}, Options{Namespaces: []string{"shop"}, End: end, Since: 24 * time.Hour}, "of namespace shop"},
		"another name":        {&answers{}, Options{Names: map[string]string{Usage: "cpu:total"}, End: end, Since: 24 * time.Hour}, "has no cpu:total"},
		"no matrix":           {&answers{to: map[string]model.Value{"count by": &model.Scalar{}}}, options(), "not a matrix"},
		"the server is away":  {&answers{refuse: func(string) error { return failed }}, options(), "connection refused"},
		"too short":           {&answers{}, Options{End: end, Since: time.Minute}, "3m0s to a year"},
		"too long":            {&answers{}, Options{End: end, Since: 9000 * time.Hour}, "3m0s to a year"},
		"metric is not read":  {&answers{}, Options{End: end, Since: 24 * time.Hour, Names: map[string]string{"usage": "a"}}, Usage},
		"not a metric's name": {&answers{}, Options{End: end, Since: 24 * time.Hour, Names: map[string]string{Usage: "a{b}"}}, "not the name of a metric"},
	} {
		if _, err := NewPlan(t.Context(), test.server, test.options); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, test.want)
		}
	}
}

// TestMixedLabels checks that metrics of several clusters are not added up, and that the labels of
// kube-state-metrics' own pod are not taken for those of others.
func TestMixedLabels(t *testing.T) {
	several := &answers{to: map[string]model.Value{"count by": model.Matrix{
		series(model.Metric{"namespace": "shop", "cluster": "a"}, 1), series(model.Metric{"namespace": "shop", "cluster": "b"}, 1)}}}
	if _, err := NewPlan(t.Context(), several, options()); err == nil || !strings.Contains(err.Error(), `several clusters (a, b): choose one, with --match 'cluster="b"'`) {
		t.Errorf("two clusters: %v", err)
	}
	several.to["count by"] = model.Matrix{series(model.Metric{"namespace": "shop", "k8s_cluster": "a"}, 1), series(model.Metric{"namespace": "pay", "k8s_cluster": "b"}, 1)}
	if _, err := NewPlan(t.Context(), several, options()); err == nil || !strings.Contains(err.Error(), `--match 'k8s_cluster="b"'`) {
		t.Errorf("two clusters by another label: %v", err)
	}
	exported := &answers{to: counts(map[string]float64{"shop": 1}), exported: true}
	if _, err := NewPlan(t.Context(), exported, options()); err == nil || !strings.Contains(err.Error(), "honor_labels: true") {
		t.Errorf("exported labels: %v", err)
	}
}

// TestLimitChanged checks which days count, and the limit: days with another limit than the last one
// do not, and those in which it is not known do.
func TestLimitChanged(t *testing.T) {
	unknown := math.NaN()
	for name, test := range map[string]struct {
		limits, requests []float64
		away             bool   // kube-state-metrics, in the last minutes
		days             string // of the last four
		limit, request   float64
	}{
		"raised":                      {[]float64{1, 1, 2, 2}, []float64{1, 1, 1, 1.5}, false, "--dd", 2, 1.5},
		"removed":                     {[]float64{1, 1, unknown, unknown}, []float64{1, 1, 1, 1}, false, "--dd", 0, 1},
		"kube-state-metrics was away": {[]float64{1, unknown, unknown, 1}, []float64{1, unknown, unknown, 1}, false, "dddd", 1, 1},
		"kube-state-metrics is away":  {[]float64{1, 1, 1, unknown}, []float64{1, 1, 1, unknown}, false, "dddd", 1, 1},
		"kube-state-metrics was away in the last minutes": {[]float64{1, 1, 1, 1}, []float64{1, 1, 1, 1}, true, "dddd", 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			of := model.Metric{"namespace": "shop", "pod": "web-0", "container": "app"}
			s := &answers{to: counts(map[string]float64{"shop": 1})}
			s.to["count_over_time"] = model.Matrix{series(of, 86400, 86400, 86400, 86400)}
			s.to["avg_over_time"] = model.Matrix{series(of, .5, .5, .5, .5)}
			s.to[Limits], s.to[Requests] = model.Matrix{series(of, test.limits...)}, model.Matrix{series(of, test.requests...)}
			if test.away {
				for _, metric := range []string{Limits, Requests} {
					s.to["last_over_time("+metric+`{resource="cpu",namespace=~"shop"}[300s])`] = model.Matrix{series(of, 1, 1, 1, unknown)}
				}
			}
			plan, err := NewPlan(t.Context(), s, options())
			if err != nil {
				t.Fatal(err)
			}
			found, err := plan.Read(t.Context(), s, plan.Batches[0])
			if err != nil {
				t.Fatal(err)
			}
			if len(found.Workloads) != 1 || !found.NoState || found.Workloads[0].Kind != "Pod" || found.Workloads[0].Name != "web-0" {
				t.Fatalf("found %+v, want the pod, as its owner is not known", found)
			}
			c, days := found.Workloads[0].Containers[0], ""
			for _, slice := range c.Slices[3:] {
				if slice.Seen > 0 {
					days += "d"
				} else {
					days += "-"
				}
			}
			if days != test.days || c.Limit != test.limit || c.Request != test.request {
				t.Errorf("days %s, limit %v, request %v; want %s, %v, %v", days, c.Limit, c.Request, test.days, test.limit, test.request)
			}
		})
	}
}

// TestWithoutNativeHistograms checks that a server that refuses queries for native histograms gives
// advice all the same.
func TestWithoutNativeHistograms(t *testing.T) {
	s := &answers{to: counts(map[string]float64{"shop": 1}), refuse: func(query string) error {
		if strings.Contains(query, "histogram_count") {
			return &promv1.Error{Type: promv1.ErrBadData, Msg: "unknown function"}
		}
		return nil
	}}
	s.to["count_over_time"] = model.Matrix{series(model.Metric{"namespace": "shop", "pod": "web-0", "container": "app"}, 86400)}
	plan, err := NewPlan(t.Context(), s, options())
	if err != nil {
		t.Fatal(err)
	}
	found, err := plan.Read(t.Context(), s, plan.Batches[0])
	if err != nil || len(found.Workloads) != 1 || len(found.Warnings) != 1 || !strings.Contains(found.Warnings[0], "unknown function") || !found.NoLimits || !found.NoRequests {
		t.Errorf("found %+v, %v", found, err)
	}
}

// TestLabelName checks the names that kube-state-metrics gives labels.
func TestLabelName(t *testing.T) {
	for key, want := range map[string]string{
		"app":                        "label_app",
		"pinfold.dev/advice":         "label_pinfold_dev_advice",
		"app.kubernetes.io/partOf-2": "label_app_kubernetes_io_part_of_2",
		"UPPER_case":                 "label_upper_case",
	} {
		if got := (Label{Key: key}).name(); got != want {
			t.Errorf("%s is %s, want %s", key, got, want)
		}
	}
}

// TestExcluded checks that the pods that were seen last decide whether a workload is excluded.
func TestExcluded(t *testing.T) {
	unseen := math.NaN()
	for name, test := range map[string]struct {
		old, present []float64 // when the pods of the old and the present version were seen
		label        model.LabelValue
		want         bool
	}{
		"the old one had it":       {[]float64{86400, 86400, 0}, []float64{unseen, 5, 86400}, "old", false},
		"the present one has it":   {[]float64{86400, 86400, unseen}, []float64{unseen, 5, 86400}, "present", true},
		"both run, and one has it": {[]float64{86400, 86400, 5}, []float64{unseen, 5, 86400}, "old", true},
	} {
		t.Run(name, func(t *testing.T) {
			pod := func(name model.LabelValue) model.Metric {
				return model.Metric{"namespace": "shop", "pod": name, "container": "app"}
			}
			s := &answers{to: counts(map[string]float64{"shop": 1})}
			s.to["count_over_time"] = model.Matrix{series(pod("old"), test.old...), series(pod("present"), test.present...)}
			s.to[PodLabels] = model.Matrix{series(model.Metric{"namespace": "shop", "pod": test.label}, 1)}
			var owned model.Matrix
			for _, name := range []model.LabelValue{"old", "present"} {
				owned = append(owned, series(model.Metric{"namespace": "shop", "pod": name, "owner_kind": "StatefulSet", "owner_name": "db"}, 1))
			}
			s.to[PodOwner] = owned
			o := options()
			o.Exclude = []Label{{"pinfold.dev/advice", "off"}}
			plan, err := NewPlan(t.Context(), s, o)
			if err != nil {
				t.Fatal(err)
			}
			found, err := plan.Read(t.Context(), s, plan.Batches[0])
			if err != nil || len(found.Workloads) != 1 || found.Workloads[0].Excluded != test.want {
				t.Errorf("found %+v, %v", found, err)
			}
		})
	}
}
