package fleet

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"

	"pinfold.dev/pinfold/cmd/pinfold/internal/prometheus"
	"pinfold.dev/pinfold/core/verdict"
)

// podNodes asks on which node each running pod is, and nodeCPUs how many CPUs the pods of a node can have.
// What is reserved for the host's services is not in it.
func (r *Request) podNodes() string {
	on := r.state.by("namespace", "pod")
	return "max " + also(on, "node, exported_node") + "(kube_pod_info{" + string(r.state) + `pod!=""` + r.match() + "}) and on " + strings.TrimPrefix(on, "by ") +
		"(max " + on + `(kube_pod_status_phase{phase="Running"` + r.match() + "}) == 1)"
}

func (r *Request) nodeCPUs() string {
	return `max by (node, exported_node) (kube_node_status_allocatable{resource="cpu"` + r.match() + "})"
}

// neighbour returns what a container is to others. One whose use is not known may want everything. It may
// have a burst of 100%.
func (o *replica) neighbour() verdict.Neighbour {
	var used, time float64
	for i := range o.windows {
		used, time = used+o.windows[i].Usage.Seconds(), time+o.windows[i].Time.Seconds()
	}
	if time == 0 {
		return verdict.Neighbour{CPUs: math.Inf(1)}
	}
	return verdict.Neighbour{CPUs: used / time, Most: 2 * o.limit}
}

// withoutLimits changes the verdicts on workloads whose limits protect no other container on the nodes where
// their pods are now. Several limits may be removed at the same time, so a neighbour that may lose its limit counts
// as one without. If a pod, its node or a neighbour is not known, the verdict stays.
func (r *Request) withoutLimits(ctx context.Context, client *prometheus.Client, found []Workload, facts *facts) error {
	where, err := client.Query(ctx, r.podNodes(), r.At)
	if err != nil {
		return err
	}
	sizes, err := client.Query(ctx, r.nodeCPUs(), r.At)
	if err != nil {
		return err
	}
	cpus := map[string]float64{}
	for _, one := range sizes {
		cpus[label(one.Metric, "node")] = float64(one.Value)
	}
	candidates := map[key]bool{}
	for i := range found {
		if w := &found[i]; w.Action == verdict.Raise || w.Action == verdict.Unknown {
			candidates[w.key()] = true
		}
	}
	ofPod := map[container][]container{}
	for c := range facts.seen {
		pod := container{namespace: c.namespace, pod: c.pod}
		ofPod[pod] = append(ofPod[pod], c)
	}
	nodes, running := map[string]map[container]verdict.Neighbour{}, map[[2]string][]string{} // the latter: nodes by namespace and workload
	for _, one := range where {
		pod, node := podOf(one.Metric), label(one.Metric, "node")
		if nodes[node] == nil {
			nodes[node] = map[container]verdict.Neighbour{}
		}
		if ofPod[pod] == nil { // nothing is known of it
			nodes[node][pod] = verdict.Neighbour{CPUs: math.Inf(1)}
		}
		for _, c := range ofPod[pod] {
			s := facts.seen[c]
			if candidates[key{c.namespace, s.workload, c.name}] {
				s.Most = 0
			}
			nodes[node][c] = s.Neighbour
		}
		workload := [2]string{pod.namespace, cmp.Or(facts.names[pod], guess(pod.pod))}
		running[workload] = append(running[workload], node)
	}
	for i := range found {
		w := &found[i]
		on := running[[2]string{w.Namespace, w.Workload}]
		if !candidates[w.key()] || len(on) == 0 {
			continue
		}
		tails, delayed := map[float64]*verdict.Tail{}, 0.
		for _, node := range slices.Compact(slices.Sorted(slices.Values(on))) {
			size := cpus[node]
			if _, computed := tails[size]; !computed {
				tails[size] = w.Tail(size)
			}
			var others []verdict.Neighbour
			its := 0
			for c, n := range nodes[node] {
				if s := facts.seen[c]; its == 0 && c.name == w.Container && c.namespace == w.Namespace && s.workload == w.Workload {
					its++ // further replicas are neighbours
					continue
				}
				others = append(others, n)
			}
			if tails[size] == nil || its == 0 {
				delayed = 1
				break
			}
			delayed = max(delayed, tails[size].Delayed(others))
		}
		w.WithoutLimit(delayed)
	}
	return nil
}

func (w *Workload) key() key { return key{w.Namespace, w.Workload, w.Container} }
