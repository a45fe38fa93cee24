package controltest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"pinfold.dev/pinfold/agent/control/groups"
	"pinfold.dev/pinfold/agent/control/pods"
	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/kubepods"
	"pinfold.dev/pinfold/test/golden"
)

// Node is a node with eight CPUs, on which a controller decides alone. The commands of its
// scenarios are those of the controller, and
//
//	machine numa=2 llcs=1 cores=4 threads=2
//	    sets another machine; its CPUs are those of the scenarios of package control
//	pod NAME CONTAINER=LIMIT...
//	    adds a running pod with its cgroups; see the scenarios of package control
//	resizing NAME
//	    the kubelet has deferred a resize of the pod
//	annotate NAME move=false
//	    changes an annotation
//	remove NAME
//	    the pod and its cgroups have ended
//	write PATH quota=50ms partition=root cpus=0-3
//	    another program writes settings
//	gone PATH
//	    a cgroup has ended
//	wait 1m
//	    time passes; it does so by a second before each command
type Node struct {
	Round groups.Round
	State nodeplan.State
	Pods  *pods.Pods
}

// Scenarios runs testdata/*.txt. command returns the function that executes the commands of the
// controller of a new node.
func Scenarios(t *testing.T, command func(*Node) func(words []string) (string, error)) {
	golden.Scenarios(t, "testdata/*.txt", func(t *testing.T, text string) string {
		n := NewNode(topology.Shape{CoresPerLLC: 8, ThreadsPerCore: 1}.MustBuild())
		run := command(n)
		return golden.Blocks(t, text, func(words []string) (string, error) {
			n.Round.Now = n.Round.Now.Add(time.Second)
			if known, err := n.Run(words); known || err != nil {
				return "", err
			}
			return run(words)
		})
	})
}

// NewNode returns a node without pods.
func NewNode(m *topology.Machine) *Node {
	n := &Node{Pods: pods.New(pods.Config{})}
	n.Round = groups.Round{Groups: &groups.Groups{}, Now: time.Unix(1_800_000_000, 0), First: true, Binds: true,
		Period: 100 * time.Millisecond}
	v := groups.View{Layout: cgroup.Layout{CPU: cgroup.V2, CPUSet: cgroup.V2}, Tiers: []string{"/pods", "/pods/burstable", "/pods/besteffort"},
		Settings: map[string]cgroup.Settings{}}
	n.Round.Observe(v)
	for _, tier := range v.Tiers {
		n.makeGroup(tier, 0)
	}
	n.setMachine(m)
	return n
}

func (n *Node) setMachine(m *topology.Machine) {
	n.State.Index, n.Round.Online = placement.NewIndex(m), m.Online()
	n.Pods.SetMachine(m)
}

func (n *Node) makeGroup(path string, limit ledger.MilliCPU) {
	s := cgroup.Settings{Limits: bandwidth.Limits{Quota: bandwidth.Unlimited, Period: n.Round.Period}}
	if limit > 0 {
		s.Quota = time.Duration(limit) * n.Round.Period / 1000
	}
	s.Partition.Kind = cgroup.PartitionMember
	n.Round.Settings[path] = s
}

// Run runs a command, if it is one of a node.
func (n *Node) Run(words []string) (known bool, err error) {
	switch args := words[1:]; words[0] {
	case "machine":
		shape := topology.Shape{}
		for _, a := range args {
			name, value, _ := strings.Cut(a, "=")
			*shape.Count(name), err = strconv.Atoi(value)
		}
		n.setMachine(shape.MustBuild())
	case "resizing":
		n.replace(args[0], func(p *corev1.Pod) *corev1.Pod {
			p = p.DeepCopy()
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodResizePending, Status: corev1.ConditionTrue})
			return p
		})
	case "annotate":
		n.replace(args[0], func(p *corev1.Pod) *corev1.Pod {
			p = p.DeepCopy()
			name, value, _ := strings.Cut(args[1], "=")
			p.Annotations[annotationKeys[name]] = value
			return p
		})
	case "remove":
		n.replace(args[0], func(*corev1.Pod) *corev1.Pod { return nil })
	case "pod":
		err = n.addPod(args)
	case "write":
		s := n.Round.Settings[args[0]]
		name, value, _ := strings.Cut(args[1], "=")
		switch name {
		case "quota":
			s.Quota, err = time.ParseDuration(value)
		case "cpus":
			s.CPUs, err = cpuset.Parse(value)
		case "partition":
			s.Partition.Kind = cgroup.Partition(value)
		default:
			err = fmt.Errorf("no setting %q", name)
		}
		n.Round.Settings[args[0]] = s
	case "gone":
		delete(n.Round.Settings, args[0])
	case "wait":
		var pause time.Duration
		pause, err = time.ParseDuration(args[0])
		n.Round.Now = n.Round.Now.Add(pause)
	default:
		return false, nil
	}
	return true, err
}

func (n *Node) addPod(args []string) error {
	object, err := Pod(args, n.Round.Now)
	if err != nil {
		return err
	}
	object.Status.Phase = corev1.PodRunning
	pod := kubepods.Pod{Path: "/pods/burstable/" + object.Name, UID: string(object.UID), Tier: nodeplan.Burstable}
	if object.Status.QOSClass == corev1.PodQOSBestEffort {
		pod.Path, pod.Tier = "/pods/besteffort/"+object.Name, nodeplan.BestEffort
	}
	var sum ledger.MilliCPU
	for i := range object.Spec.Containers {
		c := &object.Spec.Containers[i]
		id := object.Name + "-" + c.Name
		object.Status.ContainerStatuses = append(object.Status.ContainerStatuses, corev1.ContainerStatus{Name: c.Name, ContainerID: "containerd://" + id,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})
		limit := ledger.MilliCPU(c.Resources.Limits.Cpu().MilliValue())
		sum += limit
		pod.Containers = append(pod.Containers, kubepods.Container{Path: pod.Path + "/" + c.Name, ID: id})
		n.makeGroup(pod.Path+"/"+c.Name, limit)
	}
	n.makeGroup(pod.Path, sum)
	n.Round.View.Pods = append(n.Round.View.Pods, pod)
	n.replace("", func(*corev1.Pod) *corev1.Pod { return object })
	return nil
}

// replace replaces a pod, or adds one if it has no name. Without a new one, the pod has ended.
func (n *Node) replace(name string, by func(*corev1.Pod) *corev1.Pod) {
	objects, before := []*corev1.Pod{}, (*corev1.Pod)(nil)
	for i := range n.Pods.All {
		if p := n.Pods.All[i].Object; p.Name != name {
			objects = append(objects, p)
		} else {
			before = p
		}
	}
	if after := by(before); after != nil {
		objects = append(objects, after)
	} else {
		n.Round.View.Pods = slices.DeleteFunc(n.Round.View.Pods, func(p kubepods.Pod) bool { return p.UID == string(before.UID) })
	}
	n.Pods.SetPods(objects, n.Round.Runs)
}

// Locate passes the pods to the round.
func (n *Node) Locate() {
	n.Round.Locate(n.Pods.Containers())
	n.Round.Pods = n.Pods.All
}

// Plan makes a plan of the pods with their own annotations. raised returns the raised quota of a
// cgroup; it may be nil.
func (n *Node) Plan(raised func(path string, period time.Duration) time.Duration) {
	n.Locate()
	n.State.Pods = nil
	for i := range n.Pods.All {
		pod, a := n.Pods.All[i].Plan, n.Pods.All[i].Annotations
		pod.Class, pod.Period, pod.Burst = a.Class, a.Period, a.Burst
		for j := range pod.Containers {
			if c := &pod.Containers[j]; raised != nil {
				c.Raised = raised(n.Round.Container[nodeplan.Ref{Pod: pod.ID, Container: c.Name}], cmp.Or(pod.Period, n.Round.Period))
			}
		}
		n.State.Pods = append(n.State.Pods, pod)
	}
	n.Round.SetPlan(n.State, nodeplan.Plan)
}

// Apply applies settings and returns them as text.
func (n *Node) Apply(wanted map[string]cgroup.Wanted) string {
	var b strings.Builder
	for _, group := range slices.Sorted(maps.Keys(wanted)) {
		w := wanted[group]
		n.Round.Settings[group] = cgroup.Change{Path: group, Present: n.Round.Settings[group], Wanted: w}.Target()
		fmt.Fprintf(&b, "%s:%s\n", group, text(w))
	}
	return b.String()
}

func text(w cgroup.Wanted) string {
	return field("cpus", w.CPUs) + field("quota", w.Quota) + field("period", w.Period) + field("burst", w.Burst) +
		field("idle", w.Idle) + field("weight", w.Weight) + field("exclusive", w.Exclusive) + field("partition", w.Partition)
}

func field[T any](name string, value *T) string {
	if value == nil {
		return ""
	}
	return fmt.Sprintf(" %s=%v", name, *value)
}
