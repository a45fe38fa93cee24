package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/nodetopology"
)

// simulation is a cluster whose pods one system places.
type simulation struct {
	*cluster
	*host
	system
	allocate allocator
	offers   []*devices   // of each node
	taken    []cpuset.Set // of each node
	// published is what the agent of each node has allocated.
	published []api.Allocations
	live      map[int]placed
	failed    int // pods at a node
}

// placed is a pod with CPUs.
type placed struct {
	pod    *corev1.Pod
	node   int
	cpus   cpuset.Set
	device int // its position
	// asWell is true if no CPUs of the node were better.
	asWell bool
}

// newSimulation starts a cluster of n nodes. It ends with ctx.
func newSimulation(ctx context.Context, h *host, sys system, n int, rng *rand.Rand) (*simulation, error) {
	s := &simulation{host: h, system: sys, taken: make([]cpuset.Set, n), live: map[int]placed{}}
	var nodes []*corev1.Node
	var objects []*nodetopology.NodeTopology
	for i := range n {
		node := newNode(fmt.Sprintf("node-%d", i), h)
		object, err := nodetopology.FromMachine(node.Name, h.machine, nodetopology.State{ReservedCPUs: h.reserved,
			KubeletPolicy: nodetopology.KubeletPolicyNone, AgentHealth: nodetopology.AgentHealthy, Allocations: api.Allocations{}})
		if err != nil {
			return nil, err
		}
		nodes, objects = append(nodes, node), append(objects, object)
		s.offers, s.published = append(s.offers, newDevices(node, h)), append(s.published, api.Allocations{})
	}
	events, err := newTopologies(objects)
	if err != nil {
		return nil, err
	}
	if s.allocate, err = sys.allocator(h); err != nil {
		return nil, err
	}
	s.cluster, err = newCluster(ctx, nodes, events, rng, sys.pinfold)
	return s, err
}

func newNode(name string, h *host) *corev1.Node {
	amounts := func(cpus int) corev1.ResourceList {
		return corev1.ResourceList{
			corev1.ResourceCPU:    quantity(cpus),
			corev1.ResourceMemory: *resource.NewQuantity(4*int64(h.machine.Online().Len())<<30, resource.BinarySI),
			corev1.ResourcePods:   *resource.NewQuantity(1000, resource.DecimalSI),
		}
	}
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{
		Capacity: amounts(h.machine.Online().Len()), Allocatable: amounts(h.allocatable().Len())}}
}

// capacity returns how many CPUs of the cluster pods can get.
func (s *simulation) capacity() int { return len(s.nodes) * s.allocatable().Len() }

// attempts is how often a pod is created until it does not fail at its node.
const attempts = 4

// place places a pod. The error is errNoNode if it is not placed.
func (s *simulation) place(ctx context.Context, number, cpus int) (placed, error) {
	for attempt := range attempts {
		p, err := s.try(ctx, newPod(number, attempt, cpus), cpus)
		if err == nil {
			s.live[number] = p
			s.start(p)
			return p, nil
		}
		if !errors.Is(err, errFailed) {
			return placed{}, err
		}
		s.failed++
	}
	return placed{}, errNoNode
}

// try chooses a pod's node and CPUs.
func (s *simulation) try(ctx context.Context, pod *corev1.Pod, n int) (p placed, err error) {
	if err := ctx.Err(); err != nil {
		return p, err
	}
	devices := make([]int, len(s.nodes))
	state := framework.NewCycleState()
	p.pod = pod
	p.node, err = s.choose(ctx, state, pod, func(node int) (fits bool, err error) {
		if s.byDevice {
			devices[node], err = s.offers[node].allocate(ctx, n)
		}
		return devices[node] >= 0, err
	})
	if err != nil {
		return p, err
	}
	free := s.allocatable().Difference(s.taken[p.node])
	var within cpuset.Set
	if s.byDevice {
		p.device = devices[p.node]
		within = s.devices[p.device].CPUs
	}
	if p.cpus, err = s.allocate(free, within, n); err != nil {
		return p, err
	}
	if p.cpus.Len() != n || !p.cpus.IsSubsetOf(free) {
		return p, fmt.Errorf("%s: %d CPUs of %v: got %v", s.name, n, free, p.cpus)
	}
	best, err := s.index.Place(free, placement.Request{CPUs: n})
	p.asWell = notWorse(s.index.Quality(p.cpus), best.Quality)
	return p, err
}

// notWorse reports whether a placement is as good as the best by criteria 2 to 4.
func notWorse(q, best placement.Quality) bool {
	return cmp.Or(q.NUMANodes-best.NUMANodes, q.Distance-best.Distance, q.SplitCores-best.SplitCores) <= 0
}

func (s *simulation) start(p placed) {
	s.taken[p.node] = s.taken[p.node].Union(p.cpus)
	if s.byDevice {
		d := s.offers[p.node]
		d.consumed.Insert(d.share(p.device, p.cpus.Len()))
	}
	s.add(p.pod, p.node)
	s.published[p.node][p.pod.UID] = api.NewAllocation(s.nodes[p.node].Node().Name, s.machine,
		ledger.Decision{Containers: []ledger.ContainerClaim{{Name: containerName, Policy: placement.Static, CPUs: p.cpus}}})
	s.publish(p.node)
}

// publish tells Pinfold's scheduler what the agent of a node has allocated.
func (s *simulation) publish(node int) {
	if s.plugin == nil {
		return
	}
	name := s.nodes[node].Node().Name
	object, err := nodetopology.FromMachine(name, s.machine, nodetopology.State{ReservedCPUs: s.reserved, KubeletPolicy: nodetopology.KubeletPolicyNone,
		AgentHealth: nodetopology.AgentHealthy, Allocations: maps.Clone(s.published[node])})
	if err != nil {
		panic(err) // the machine is valid
	}
	object.ResourceVersion = "2"
	s.plugin.Report(object)
}

// end ends a pod, unless it was not placed.
func (s *simulation) end(ctx context.Context, number int) error {
	p, runs := s.live[number]
	if !runs {
		return nil
	}
	delete(s.live, number)
	s.taken[p.node] = s.taken[p.node].Difference(p.cpus)
	if s.byDevice {
		d := s.offers[p.node]
		d.consumed.Remove(d.share(p.device, p.cpus.Len()))
	}
	delete(s.published[p.node], p.pod.UID)
	if err := s.remove(ctx, p.pod, p.node); err != nil {
		return err
	}
	s.publish(p.node)
	return nil
}

// outcome is the measures of one run. See the package comment.
type outcome struct {
	placed, failed, numaNodes, splitCores, asWell, full float64
}

// simulate plays a workload, and then fills the cluster.
func simulate(ctx context.Context, c *comparison, sys system, seed uint64) (o outcome, err error) {
	ctx, cancel := context.WithCancel(klog.NewContext(ctx, logr.Discard()))
	defer cancel()
	s, err := newSimulation(ctx, c.host, sys, c.nodes, rand.New(rand.NewPCG(seed, 1)))
	if err != nil {
		return o, err
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, e := range workload(rng, c.mix, s.capacity(), c.pods) {
		if err := s.play(ctx, e, &o); err != nil {
			return o, err
		}
	}
	o.numaNodes /= o.placed
	o.splitCores /= o.placed
	o.asWell *= 100 / o.placed
	o.full, err = s.fill(ctx, rng, c.mix)
	return o, err
}

// play carries out an event, and adds what it shows to the sums.
func (s *simulation) play(ctx context.Context, e event, sums *outcome) error {
	if e.ends {
		return s.end(ctx, e.pod)
	}
	failed := s.failed
	p, err := s.place(ctx, e.pod, e.cpus)
	none := errors.Is(err, errNoNode)
	if err != nil && !none {
		return err
	}
	if !e.counted {
		return nil
	}
	if sums.failed += float64(s.failed - failed); none {
		return nil
	}
	q := s.index.Quality(p.cpus)
	sums.placed++
	sums.numaNodes += float64(q.NUMANodes)
	sums.splitCores += float64(q.SplitCores)
	if p.asWell {
		sums.asWell++
	}
	return nil
}

// patience is how many pods in succession find no node in a full cluster.
const patience = 20

// fill places pods until the cluster is full, and returns the percentage of CPUs in use.
func (s *simulation) fill(ctx context.Context, rng *rand.Rand, mx mix) (float64, error) {
	refused := 0
	for pod := -1; refused < patience; pod-- { // numbers that no pod has had
		switch _, err := s.place(ctx, pod, mx.draw(rng)); {
		case errors.Is(err, errNoNode):
			refused++
		case err != nil:
			return 0, err
		default:
			refused = 0
		}
	}
	used := 0
	for _, cpus := range s.taken {
		used += cpus.Len()
	}
	return 100 * float64(used) / float64(s.capacity()), nil
}
