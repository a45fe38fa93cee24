package metrics

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
)

// Server answers queries. A [promv1.API] does.
type Server interface {
	QueryRange(ctx context.Context, query string, r promv1.Range, opts ...promv1.Option) (model.Value, promv1.Warnings, error)
}

// Options say what to read.
type Options struct {
	Namespaces []string // nil: all
	// Match are more label matchers of each query, such as cluster="a".
	Match string
	End   time.Time
	Since time.Duration // before End
	// Names are the names of metrics that a server has under other names.
	Names map[string]string
	// Exclude are labels of pods whose workloads are marked.
	Exclude []Label
	// Counter is the metric whose series show that containers ran; "" for [Usage].
	Counter string
	// Step is the time between samples, if it is known; more than a minute makes a difference.
	Step time.Duration
	// Source is what answers, for messages; "" for "the server".
	Source string
}

// The metrics that are read, by the names that Options.Names replaces.
const (
	Usage            = "container_cpu_usage_seconds_total"
	Periods          = "container_cpu_cfs_periods_total"
	ThrottledPeriods = "container_cpu_cfs_throttled_periods_total"
	ThrottledSeconds = "container_cpu_cfs_throttled_seconds_total"
	SpecQuota        = "container_spec_cpu_quota"
	SpecPeriod       = "container_spec_cpu_period"
	Limits           = "kube_pod_container_resource_limits"
	Requests         = "kube_pod_container_resource_requests"
	PodOwner         = "kube_pod_owner"
	ReplicaSetOwner  = "kube_replicaset_owner"
	JobOwner         = "kube_job_owner"
	PodLabels        = "kube_pod_labels"
	Demand           = "pinfold_container_cpu_demand_cores"
	Throttling       = "pinfold_container_cpu_throttling_seconds"
)

// Metrics returns all of them.
func Metrics() []string {
	return []string{Usage, Periods, ThrottledPeriods, ThrottledSeconds, SpecQuota, SpecPeriod, Limits, Requests, PodOwner, ReplicaSetOwner, JobOwner, PodLabels, Demand, Throttling}
}

const (
	// BatchContainers is the largest number of containers of a batch, unless one namespace has more.
	BatchContainers = 1000
	// LongWindow is the time over which usage is averaged, if at least an hour is asked about, and
	// shortWindow the least such time. A server that scrapes each 15 s has four values in that.
	LongWindow, shortWindow = 5 * time.Minute, time.Minute
	// high is the quantile of the usage of windows.
	high = .95
	// mostSlices and leastSlices bound the number of slices. A week has days.
	mostSlices, leastSlices = 7, 3
)

// The shortest and the longest time to read.
const (
	MinSince = leastSlices * shortWindow
	MaxSince = 366 * 24 * time.Hour
)

// Validate returns an error for options that no server can answer.
func (o *Options) Validate() error {
	if o.Since < MinSince || o.Since > MaxSince {
		return fmt.Errorf("a time of %v: it is %v to a year", o.Since, MinSince)
	}
	for name, other := range o.Names {
		if !slices.Contains(Metrics(), name) {
			return fmt.Errorf("no metric %q is read; these are: %s", name, strings.Join(Metrics(), ", "))
		}
		if !regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`).MatchString(other) {
			return fmt.Errorf("%q is not the name of a metric", other)
		}
	}
	for _, l := range o.Exclude {
		if err := l.validate(); err != nil {
			return err
		}
	}
	return nil
}

// Plan is what will be asked.
type Plan struct {
	Options Options
	Slice   time.Duration
	Slices  int
	Window  time.Duration // over which usage is averaged; a slice has several, or one if it is short
	Batches []Batch
	// Warnings of the server, about the containers that there are.
	Warnings []string
	over     time.Duration // of a rate, every window
}

// Batch is a part of the containers.
type Batch struct {
	Namespaces []string
	Containers int // at the end of a slice, at most
}

// NewPlan asks which namespaces have how many containers, and divides them into batches.
func NewPlan(ctx context.Context, s Server, o Options) (*Plan, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	p := &Plan{Options: o, Slices: min(max(int(o.Since/time.Hour), leastSlices), mostSlices), Window: LongWindow}
	if o.Since < time.Hour { // with whole minutes in few slices, much of the time would be left out
		p.Window = max(shortWindow, (o.Since / 12).Truncate(shortWindow))
		p.Slices = min(int(o.Since/p.Window), mostSlices)
	}
	p.over = max(p.Window, 2*o.Step) // a rate takes two samples
	p.Window = max(p.Window, o.Step)
	if least := (3*o.Step + p.Window - 1).Truncate(p.Window); least > 0 { // a slice has at least three
		p.Slices = max(min(p.Slices, int(o.Since/least)), 1)
	}
	p.Slice = max((o.Since / time.Duration(p.Slices)).Truncate(p.Window), p.Window)
	p.Options.Counter, p.Options.Source = cmp.Or(o.Counter, Usage), cmp.Or(o.Source, "the server")
	counts, warnings, err := p.ask(ctx, s, p.CountQuery())
	if err != nil {
		return nil, err
	}
	p.Warnings = warnings
	found := map[string]int{}
	for _, series := range counts {
		for _, v := range series.Values {
			namespace := string(series.Metric["namespace"])
			found[namespace] = max(found[namespace], int(v.Value))
		}
	}
	for _, label := range clusterLabels() {
		clusters := map[string]bool{}
		for _, series := range counts {
			if value, has := series.Metric[model.LabelName(label)]; has || label == "cluster" {
				clusters[string(value)] = true
			}
		}
		if names := slices.Sorted(maps.Keys(clusters)); len(names) > 1 {
			return nil, fmt.Errorf("%s has containers of several clusters (%s): choose one, with --match '%s=%q'", p.Options.Source, strings.Join(names, ", "), label, names[len(names)-1])
		}
	}
	delete(found, "")
	if len(found) == 0 {
		return nil, p.whyNothing(ctx, s)
	}
	p.divide(found)
	return p, p.checkHonor(ctx, s)
}

// checkHonor returns an error if the labels of kube-state-metrics were replaced by those of its own
// pod, which would be taken for the one with all limits.
func (p *Plan) checkHonor(ctx context.Context, s Server) error {
	exported, _, err := p.ask(ctx, s, fmt.Sprintf("count(last_over_time(%s[%ds]))", p.selector(Limits, nil, `exported_pod!=""`), int(p.Slice.Seconds())))
	if err == nil && len(exported) > 0 {
		err = fmt.Errorf("%s has the labels of kube-state-metrics as exported_pod, exported_namespace and so on: scrape it with honor_labels: true (ServiceMonitor: honorLabels)", p.Options.Source)
	}
	return err
}

// divide makes batches of the namespaces, in the order of their names.
func (p *Plan) divide(containers map[string]int) {
	var b Batch
	for _, namespace := range slices.Sorted(maps.Keys(containers)) {
		n := containers[namespace]
		if b.Containers > 0 && b.Containers+n > BatchContainers {
			p.Batches = append(p.Batches, b)
			b = Batch{}
		}
		b.Namespaces, b.Containers = append(b.Namespaces, namespace), b.Containers+n
	}
	p.Batches = append(p.Batches, b)
}

// whyNothing returns why no container was found.
func (p *Plan) whyNothing(ctx context.Context, s Server) error {
	name := p.name(p.Options.Counter)
	found, _, err := p.ask(ctx, s, fmt.Sprintf("count({__name__=%q})", name))
	switch {
	case err != nil:
		return err
	case len(found) == 0:
		return fmt.Errorf("%s has no %s of the last %v: it must scrape /metrics/cadvisor of the kubelets; if it has that metric under another name, say so with --metric %s=NAME",
			p.Options.Source, name, p.Options.Since, Usage)
	}
	if where := p.where(); where != "" {
		return fmt.Errorf("%s has %s, but of no container%s in the last %v: is its name right? The series must have the labels namespace, pod and container", p.Options.Source, name, where, p.Options.Since)
	}
	return fmt.Errorf("%s has %s, but of no container: series must have the labels namespace, pod and container", p.Options.Source, name)
}

func (p *Plan) where() string {
	s := ""
	if len(p.Options.Namespaces) > 0 {
		s = " of namespace " + strings.Join(p.Options.Namespaces, ", ")
	}
	if p.Options.Match != "" {
		s += " with " + p.Options.Match
	}
	return s
}

// Range is the range of the queries: one value for each slice.
func (p *Plan) Range() promv1.Range {
	return promv1.Range{Start: p.Options.End.Add(-time.Duration(p.Slices-1) * p.Slice), End: p.Options.End, Step: p.Slice}
}

// ask runs a query.
func (p *Plan) ask(ctx context.Context, s Server, query string) (model.Matrix, promv1.Warnings, error) {
	value, warnings, err := s.QueryRange(ctx, query, p.Range())
	if large := (*http.MaxBytesError)(nil); errors.As(err, &large) {
		err = &promv1.Error{Type: promv1.ErrExec, Msg: fmt.Sprintf("the answer is larger than the limit of %d bytes", large.Limit)}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("query %s: %w", query, err)
	}
	matrix, ok := value.(model.Matrix)
	if !ok {
		return nil, nil, fmt.Errorf("query %s: the server answered with a %v, not a matrix", query, value.Type())
	}
	return matrix, warnings, nil
}

// tooMuch reports whether a server refused a query because of its size, or the answer was too large.
func tooMuch(err error) bool {
	var e *promv1.Error
	if !errors.As(err, &e) {
		return false
	}
	text := e.Msg + e.Detail
	return e.Type == promv1.ErrExec && (strings.Contains(text, "too many samples") || strings.Contains(text, "limit"))
}

// halves divides a batch of several namespaces.
func (b Batch) halves() (first, second Batch) {
	n := len(b.Namespaces) / 2
	return Batch{Namespaces: b.Namespaces[:n], Containers: b.Containers / 2}, Batch{Namespaces: b.Namespaces[n:], Containers: b.Containers - b.Containers/2}
}

func (p *Plan) name(metric string) string { return cmp.Or(p.Options.Names[metric], metric) }
