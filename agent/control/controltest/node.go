package controltest

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"pinfold.dev/pinfold/agent/control/groups"
	"pinfold.dev/pinfold/agent/control/pods"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/kubepods"
)

// Node is a node without a kernel, on which allocations can be decided.
type Node struct {
	Round groups.Round
	Pods  *pods.Pods
}

// NewNode returns a node without pods.
func NewNode(m *topology.Machine, books ledger.Config) *Node {
	n := &Node{Pods: pods.New(pods.Config{})}
	n.Round = groups.Round{Groups: &groups.Groups{Online: m.Online()}, Now: time.Unix(1_800_000_000, 0), Binds: true,
		Index: placement.NewIndex(m), Books: books}
	n.Round.Observe(groups.View{Layout: cgroup.Layout{CPU: cgroup.V2, CPUSet: cgroup.V2}, Settings: map[string]cgroup.Settings{}})
	return n
}

// Add adds a running pod with its cgroup; see [Pod].
func (n *Node) Add(args ...string) error {
	object, _, err := Pod(args, n.Round.Now)
	if err != nil {
		return err
	}
	object.Status.Phase = corev1.PodRunning
	pod := kubepods.Pod{Path: "/pods/burstable/" + object.Name, UID: string(object.UID)}
	n.Round.Settings[pod.Path] = cgroup.Settings{}
	n.Round.View.Pods = append(n.Round.View.Pods, pod)
	n.setPods(append(n.objects(), object))
	return nil
}

// Remove removes a pod and its cgroup.
func (n *Node) Remove(name string) {
	n.Round.View.Pods = slices.DeleteFunc(n.Round.View.Pods, func(p kubepods.Pod) bool { return p.Path == "/pods/burstable/"+name })
	n.setPods(slices.DeleteFunc(n.objects(), func(p *corev1.Pod) bool { return p.Name == name }))
}

func (n *Node) objects() (all []*corev1.Pod) {
	for i := range n.Pods.All {
		all = append(all, n.Pods.All[i].Object)
	}
	return all
}

func (n *Node) setPods(objects []*corev1.Pod) {
	n.Pods.SetPods(objects, n.Round.Runs)
	n.Round.Locate(n.Pods.Containers())
	n.Round.Pods = n.Pods.All
}
