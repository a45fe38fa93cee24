package metrics

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/prometheus/common/model"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/counters"
	"pinfold.dev/pinfold/core/trace"
)

// Workload is the containers of one name in the pods of one owner.
type Workload struct {
	Namespace, Kind, Name, Container string
	Containers                       []counters.Container
	Excluded                         bool // by a label of the pods that were seen last
	last                             int  // slice in which one of them was seen
}

// Found is what a batch has found.
type Found struct {
	Workloads []Workload
	Warnings  []string // of the server
	NoState   bool     // it has no metrics of kube-state-metrics
	// NoRequests and NoLimits say that it has none of any container.
	NoRequests, NoLimits bool
}

// key names a container.
type key struct{ namespace, pod, container string }

// object names an object of a namespace.
type object struct{ kind, namespace, name string }

// Read reads a batch.
func (p *Plan) Read(ctx context.Context, s Server, b Batch) (*Found, error) {
	found, err := p.read(ctx, s, b)
	if err == nil || !tooMuch(err) {
		return found, err
	}
	if len(b.Namespaces) < 2 {
		return nil, errors.Join(err, errors.New("namespace "+b.Namespaces[0]+" alone is too large: ask for a shorter time with --since, or for a part of it with --match"))
	}
	one, two := b.halves()
	found, err = p.Read(ctx, s, one)
	if err != nil {
		return nil, err
	}
	more, err := p.Read(ctx, s, two)
	if err != nil {
		return nil, err
	}
	return &Found{Workloads: append(found.Workloads, more.Workloads...), Warnings: append(found.Warnings, more.Warnings...), NoState: found.NoState && more.NoState,
		NoRequests: found.NoRequests && more.NoRequests, NoLimits: found.NoLimits && more.NoLimits}, nil
}

// values are those of one container, for each slice, and what an agent has counted in all of them.
type values struct {
	of      [figures][]float64
	demand  counters.Histogram
	sampled float64
}

func (p *Plan) read(ctx context.Context, s Server, b Batch) (*Found, error) {
	found := &Found{NoRequests: true, NoLimits: true}
	containers := map[key]*values{}
	for f, query := range p.figures(b) {
		matrix, warnings, err := p.ask(ctx, s, query)
		if err != nil {
			return nil, err
		}
		found.Warnings = append(found.Warnings, warnings...)
		switch f := figure(f); {
		case len(matrix) == 0:
		case f == request:
			found.NoRequests, found.NoLimits = false, false // where there are requests, there would be limits
		case f == limitHigh, f == specLimit:
			found.NoLimits = false
		}
		for _, series := range matrix {
			k := keyOf(series.Metric)
			if containers[k] == nil {
				containers[k] = &values{}
			}
			containers[k].of[f] = p.bySlice(series)
		}
	}
	if err := p.readAgents(ctx, s, b, containers, found); err != nil {
		return nil, err
	}
	owners := map[object]object{}
	for i, query := range p.owners(b) {
		matrix, warnings, err := p.ask(ctx, s, query)
		if err != nil {
			return nil, err
		}
		found.Warnings = append(found.Warnings, warnings...)
		found.NoState = found.NoState || i == 0 && len(matrix) == 0
		for _, series := range matrix {
			m := series.Metric
			namespace := string(m["namespace"])
			of := object{[]string{"Pod", "ReplicaSet", "Job"}[i], namespace, string(m[[]model.LabelName{"pod", "replicaset", "job_name"}[i]])}
			owners[of] = object{string(m["owner_kind"]), namespace, string(m["owner_name"])}
		}
	}
	excluded, err := p.excluded(ctx, s, b, found)
	found.Workloads = p.group(containers, owners, excluded)
	return found, err
}

// readAgents reads what agents have counted. A server that knows no native histograms refuses the
// queries, and those of one namespace may be too many: then the advice goes without.
func (p *Plan) readAgents(ctx context.Context, s Server, b Batch, containers map[key]*values, found *Found) error {
	var answers [2]model.Matrix
	for i, query := range p.agents(b) {
		matrix, warnings, err := p.ask(ctx, s, query)
		switch {
		case err != nil && (ctx.Err() != nil || tooMuch(err) && len(b.Namespaces) > 1):
			return err
		case err != nil:
			found.Warnings = append(found.Warnings, fmt.Sprintf("what agents have counted is not used: %v", errors.Unwrap(err)))
			return nil
		}
		answers[i], found.Warnings = matrix, append(found.Warnings, warnings...)
	}
	for _, series := range answers[0] {
		if v := containers[keyOf(series.Metric)]; v != nil {
			v.demand = histogram(series)
		}
	}
	for _, series := range answers[1] {
		if v := containers[keyOf(series.Metric)]; v != nil {
			for _, n := range series.Values {
				v.sampled += float64(n.Value)
			}
		}
	}
	return nil
}

func keyOf(m model.Metric) key {
	return key{string(m["namespace"]), string(m["pod"]), string(m["container"])}
}

// histogram returns the sum of the histograms of a series.
func histogram(series *model.SampleStream) (sum counters.Histogram) {
	for _, h := range series.Histograms {
		var one counters.Histogram
		for _, b := range h.Histogram.Buckets {
			if b.Count > 0 && b.Upper > 0 && b.Upper > b.Lower {
				one = append(one, counters.Bucket{Low: max(0, float64(b.Lower)), High: float64(b.Upper), Periods: float64(b.Count)})
			}
		}
		sum = sum.Add(one)
	}
	return sum
}

// bySlice returns the value of a series in each slice, which is NaN where it has none.
func (p *Plan) bySlice(series *model.SampleStream) []float64 {
	out := slices.Repeat([]float64{math.NaN()}, p.Slices)
	for _, v := range series.Values {
		if i := v.Timestamp.Time().Sub(p.Range().Start).Round(p.Slice) / p.Slice; i >= 0 && int(i) < p.Slices {
			out[i] = float64(v.Value)
		}
	}
	return out
}

// group returns the workloads, in the order of their names.
func (p *Plan) group(containers map[key]*values, owners map[object]object, excluded map[object]bool) []Workload {
	type name struct {
		object
		container string
	}
	byName := map[name]*Workload{}
	alive := false // kube-state-metrics, at the end
	for _, v := range containers {
		for _, f := range []figure{limit, requested} {
			alive = alive || v.of[f] != nil && v.of[f][p.Slices-1] > 0
		}
	}
	for k, v := range containers {
		if v.of[seen] == nil {
			continue // it has a limit or a request only
		}
		of := object{"Pod", k.namespace, k.pod}
		for range 3 { // a pod of a replica set of a deployment
			owner, known := owners[of]
			if !known || owner.kind == "Node" { // a static pod
				break
			}
			of = owner
		}
		n := name{of, k.container}
		if byName[n] == nil {
			byName[n] = &Workload{Namespace: of.namespace, Kind: of.kind, Name: of.name, Container: k.container}
		}
		w, c := byName[n], p.container(k.pod, v, alive)
		w.Containers = append(w.Containers, c)
		last := len(c.Slices) - 1
		for last > 0 && c.Slices[last].Seen == 0 {
			last--
		}
		if last > w.last {
			w.last, w.Excluded = last, false
		}
		w.Excluded = w.Excluded || last == w.last && excluded[object{"Pod", k.namespace, k.pod}]
	}
	var out []Workload
	for _, w := range byName {
		slices.SortFunc(w.Containers, func(a, b counters.Container) int { return cmp.Compare(a.Pod, b.Pod) })
		out = append(out, *w)
	}
	slices.SortFunc(out, func(a, b Workload) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Container, b.Container))
	})
	return out
}

// container returns what the values of a container say. alive says that the limits at the end are
// known: a container that has none then has no limit.
func (p *Plan) container(pod string, v *values, alive bool) counters.Container {
	at := func(f figure, slice int) float64 {
		if v.of[f] == nil {
			return math.NaN()
		}
		return v.of[f][slice]
	}
	low, high, now := limitLow, limitHigh, limit
	if v.of[limitHigh] == nil {
		low, high, now = specLimit, specLimit, specLimit
	}
	c := counters.Container{Pod: pod, Period: trace.DefaultPeriod, Demand: v.demand, Sampled: v.sampled, Window: p.Window}
	for i := range p.Slices {
		c.Last = max(c.Last, known(at(last, i)))
		// The last one counts; a container with a request only has no limit any more.
		l, r := at(high, i), at(request, i)
		if l != at(low, i) {
			l = at(now, i)
		}
		if l > 0 || r > 0 {
			c.Limit, c.Request = known(l), known(r)
		}
		if period := duration(at(specPeriod, i)); period >= bandwidth.MinPeriod && period <= bandwidth.MaxPeriod {
			c.Period = period
		}
	}
	// What runs at the end has the limit of that time, or none.
	if runs := c.Last == 0 || c.Last > float64(p.Options.End.Add(-p.over).Unix()); runs && alive {
		c.Limit = known(at(now, p.Slices-1))
	}
	for i := range p.Slices {
		s := counters.Slice{Mean: at(mean, i), High: at(highest, i), Periods: at(periods, i), Throttled: at(throttled, i), ThrottledSeconds: at(throttledSeconds, i), Runs: known(at(runs, i))}
		switch l := at(high, i); {
		case !(at(seen, i) > 0):
		case l == c.Limit && l == at(low, i), math.IsNaN(l):
			s.Seen = min(p.Slice, duration(at(seen, i)))
		default:
			c.Changed = true
		}
		c.Slices = append(c.Slices, s)
	}
	return c
}

// known returns 0 for what is not known.
func known(x float64) float64 {
	if math.IsNaN(x) {
		return 0
	}
	return x
}

func duration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }
