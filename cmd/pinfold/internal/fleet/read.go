package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/common/model"

	"pinfold.dev/pinfold/cmd/pinfold/internal/prometheus"
	"pinfold.dev/pinfold/core/verdict"
)

// Request is what to ask for.
type Request struct {
	Namespace string // "" for all
	Since     time.Duration
	Match     string    // label matchers that all series must have, such as cluster="prod"
	At        time.Time // the end
	Goal      float64   // the share of periods that may be throttled
	// Incomplete is set if the server has failed in the middle.
	Incomplete bool
	// Progress receives how much is done.
	Progress func(done, all int)
	// Unmeasured receives why the histograms of agents cannot be read.
	Unmeasured func(error)

	agentsKnown             bool
	cadvisor, state, agents source // the second is kube-state-metrics
}

// Workload are the containers of one name in the pods of a workload.
type Workload struct {
	Namespace string `json:"namespace"`
	Workload  string `json:"workload"` // its kind and name
	Container string `json:"container"`
	Pods      int    `json:"pods"` // that were seen
	verdict.Verdict
	request float64 // CPUs; 0 if it is not known
}

const (
	// mostAtOnce is how many containers are asked for at a time, unless one namespace has more. With
	// mostSteps, an answer has two million points.
	mostAtOnce = 1000
	// mostSteps is how many points of a series are asked for, and leastStep the time between two at least.
	mostSteps = 2016
	leastStep = 30 * time.Second
	// longestStep is the longest time between two readings of counters that are read every few minutes.
	longestStep = 6 * time.Minute
)

// Step returns the time between two points that are asked for.
func (r *Request) Step() time.Duration {
	steps := (r.Since/mostSteps + leastStep - 1) / leastStep
	return leastStep * max(1, steps)
}

// container is one of a pod.
type container struct{ namespace, pod, name string }

// facts are what is known of single containers.
type facts struct {
	names     map[container]string  // of workloads, by pod
	owners    map[[3]string]string  // kind/name of what has made a ReplicaSet or Job, by its kind, namespace and name
	unlimited map[container]bool    // those without a limit
	ofPod     map[container]bool    // pods that the kernel throttles as a whole
	requests  map[container]float64 // CPUs
	seen      map[container]seen
}

// seen is what was read about a container.
type seen struct {
	workload string
	verdict.Neighbour
}

// Read asks for all workloads, and returns the verdicts in no order. When it fails in the middle, it
// returns those so far with the error.
func Read(ctx context.Context, client *prometheus.Client, r Request) ([]Workload, error) {
	for name, s := range map[string]*source{usage: &r.cadvisor, owners: &r.state, needed: &r.agents} {
		some, err := client.Query(ctx, r.isRenamed(name), r.At)
		if err != nil {
			return nil, err
		}
		if len(some) > 0 && some[0].Value > 0 {
			*s = renamed
		}
	}
	agents, err := client.Query(ctx, r.hasAgents(), r.At)
	if err != nil {
		return nil, err
	}
	r.agentsKnown = len(agents) > 0
	clusters, err := client.Query(ctx, r.clusters(), r.At)
	if err != nil {
		return nil, err
	}
	if len(clusters) > 1 {
		return nil, fmt.Errorf("the server has series of %d clusters: name one, as in --match 'cluster=%q'", len(clusters), clusters[0].Metric["cluster"])
	}
	sizes, err := client.Query(ctx, r.sizes(), r.At)
	if err != nil {
		return nil, err
	}
	if len(sizes) == 0 {
		return nil, r.nothing(ctx, client)
	}
	facts := facts{names: map[container]string{}, owners: map[[3]string]string{}, unlimited: map[container]bool{}, ofPod: map[container]bool{},
		requests: map[container]float64{}, seen: map[container]seen{}}
	for _, about := range r.abouts() {
		vector, err := client.Query(ctx, about.query, r.At)
		if err != nil {
			return nil, err
		}
		for _, one := range vector {
			about.keep(&facts, one.Metric, float64(one.Value))
		}
	}
	count := map[string]int{}
	all := 0
	for _, size := range sizes {
		count[label(size.Metric, "namespace")] = int(size.Value)
		all += int(size.Value)
	}
	var found []Workload
	done := 0
	for _, batch := range batches(count) {
		some, err := r.batch(ctx, client, batch, &facts)
		if err != nil {
			return found, err
		}
		found = append(found, some...)
		for _, namespace := range batch {
			done += count[namespace]
		}
		r.Progress(done, all)
	}
	if r.Namespace != "" { // neighbours may be in other namespaces
		return found, nil
	}
	return found, r.withoutLimits(ctx, client, found, &facts)
}

// nothing explains why there are no containers.
func (r *Request) nothing(ctx context.Context, client *prometheus.Client) error {
	any, err := client.Query(ctx, "count("+usage+")", r.At)
	switch {
	case err != nil:
		return err
	case len(any) == 0:
		return errors.New("the server has no metric " + usage + ": does it read the kubelets' /metrics/cadvisor?")
	case r.Namespace != "":
		return fmt.Errorf("the server has no series %s of a container in namespace %s", usage, r.Namespace)
	}
	return errors.New("the server's series " + usage + " have no labels namespace, pod and container: they are not of Kubernetes, or were relabelled")
}

// batches divides namespaces into batches of few enough containers. A namespace is in one batch.
func batches(count map[string]int) (all [][]string) {
	size := mostAtOnce
	for _, namespace := range slices.Sorted(maps.Keys(count)) {
		if size += count[namespace]; size > mostAtOnce || all == nil {
			all, size = append(all, nil), count[namespace]
		}
		all[len(all)-1] = append(all[len(all)-1], namespace)
	}
	return all
}

// countsOf returns the counts of a histogram.
func countsOf(s *model.Sample) verdict.Counts {
	counts := verdict.Counts{}
	if s.Histogram == nil {
		return counts
	}
	for _, bucket := range s.Histogram.Buckets {
		if n := float64(bucket.Count); n > 0 {
			counts[float64(bucket.Upper)] += n
		}
	}
	return counts
}

// key names a container of a workload.
type key struct{ namespace, workload, container string }

// batch returns the verdicts on the workloads of some namespaces.
func (r *Request) batch(ctx context.Context, client *prometheus.Client, namespaces []string, facts *facts) ([]Workload, error) {
	step := r.Step()
	answers := map[string]map[container][]model.SamplePair{}
	for name, query := range r.queries(namespaces) {
		matrix, err := client.QueryRange(ctx, query, r.At.Add(-r.Since).Truncate(step), r.At.Truncate(step), step)
		if err != nil {
			return nil, err
		}
		answers[name] = map[container][]model.SamplePair{}
		for _, series := range matrix {
			answers[name][containerOf(series.Metric)] = series.Values
		}
	}
	measured, err := r.measure(ctx, client, namespaces)
	if err != nil { // the counters remain
		r.Unmeasured(err)
	}
	replicas := map[key][]replica{}
	for c := range answers["usage"] {
		one := newReplica(c, func(name string) []model.SamplePair { return answers[name][c] }, step)
		one.measured = measured[c]
		name, owned := facts.names[container{namespace: c.namespace, pod: c.pod}]
		if !owned {
			name = guess(c.pod)
		}
		facts.seen[c] = seen{name, one.neighbour()}
		k := key{c.namespace, name, c.name}
		replicas[k] = append(replicas[k], one)
	}
	var found []Workload
	for k, all := range replicas {
		v := r.judge(all, facts) // the first one was seen last
		found = append(found, Workload{k.namespace, k.workload, k.container, len(all), v, facts.requests[all[0].container]})
	}
	return found, nil
}

// measure returns what agents have measured of the containers in some namespaces.
func (r *Request) measure(ctx context.Context, client *prometheus.Client, namespaces []string) (map[container]verdict.Measured, error) {
	if !r.agentsKnown {
		return nil, nil
	}
	measured := map[container]verdict.Measured{}
	for name, keep := range map[string]func(*verdict.Measured, verdict.Counts){
		needed: func(m *verdict.Measured, c verdict.Counts) { m.Limits = c },
		wanted: func(m *verdict.Measured, c verdict.Counts) { m.CPUs = c },
	} {
		vector, err := client.Query(ctx, r.measured(name, namespaces), r.At)
		if err != nil {
			return nil, err
		}
		for _, one := range vector {
			m := measured[containerOf(one.Metric)]
			keep(&m, countsOf(one))
			measured[containerOf(one.Metric)] = m
		}
	}
	return measured, nil
}
