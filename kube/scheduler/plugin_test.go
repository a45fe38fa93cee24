package scheduler

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/kube/scheduler/agents"
	"pinfold.dev/pinfold/kube/scheduler/waiting"
	"pinfold.dev/pinfold/test/must"
)

// barePlugin is a plugin without a scheduler, for tests of single extension points.
func barePlugin(t testing.TB) *Plugin {
	t.Helper()
	args := must.Get(parseArgs(nil))(t)
	reports := agents.New("", 0, time.Now)
	p := &Plugin{args: args, shared: &shared{reports: reports, synced: func() bool { return true },
		waiting: waiting.New(func(map[string]*corev1.Pod) {}, func(*corev1.Pod) bool { return true }, 0),
	}}
	p.nodes = &nodeStates{derive: p.derive}
	return p
}

// reportMachine passes a node's topology to the plugin.
func reportMachine(t testing.TB, p *Plugin, node string, m *topology.Machine, version int) {
	t.Helper()
	reportAllocations(t, p, node, m, version, api.Allocations{})
}

// reportAllocations passes a node's topology and what its agent has allocated to the plugin.
func reportAllocations(t testing.TB, p *Plugin, node string, m *topology.Machine, version int, all api.Allocations) {
	t.Helper()
	obj := must.Get(nodetopology.FromMachine(node, m, nodetopology.State{AgentHealth: nodetopology.AgentHealthy, Allocations: all}))(t)
	obj.ResourceVersion = fmt.Sprint(version)
	p.shared.reports.Set(p.shared.reports.Read(obj))
}

func nodeInfoOf(name string, cpus int) *framework.NodeInfo {
	amount := corev1.ResourceList{"cpu": *resource.NewQuantity(int64(cpus), resource.DecimalSI)}
	info := framework.NewNodeInfo()
	info.SetNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Capacity: amount, Allocatable: amount}})
	return info
}

// askingPod asks for n CPUs. With 0 it does not ask.
func askingPod(name string, n int) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name), ResourceVersion: "1"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}}},
	}
	if n > 0 {
		pod.Annotations = map[string]string{api.CPUSetSchedulerAnnotation: "true"}
		amount := corev1.ResourceList{"cpu": *resource.NewQuantity(int64(n), resource.DecimalSI)}
		pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: amount, Limits: amount}
	}
	return pod
}

// startCycle runs PreFilter for a pod.
func startCycle(t testing.TB, p *Plugin, pod *corev1.Pod, nodes ...fwk.NodeInfo) fwk.CycleState {
	t.Helper()
	state := framework.NewCycleState()
	if _, status := p.PreFilter(context.Background(), state, pod, nodes); !status.IsSuccess() {
		t.Fatal(status)
	}
	return state
}

// assume runs Reserve for the pod, adds it to the node as the scheduler does, and returns the
// assumed pod.
func assume(t testing.TB, p *Plugin, state fwk.CycleState, pod *corev1.Pod, node *framework.NodeInfo) *corev1.Pod {
	t.Helper()
	assumed := pod.DeepCopy()
	assumed.Spec.NodeName = node.Node().Name
	p.handle = snapshotOf{nodes: map[string]fwk.NodeInfo{node.Node().Name: node.Snapshot()}}
	if status := p.Reserve(context.Background(), state, assumed, node.Node().Name); !status.IsSuccess() {
		t.Fatal(status)
	}
	node.AddPod(assumed)
	return assumed
}

// comeBack replaces an assumed pod by the bound pod from the API server.
func comeBack(t testing.TB, assumed *corev1.Pod, node *framework.NodeInfo) *corev1.Pod {
	t.Helper()
	pod := assumed.DeepCopy()
	pod.ResourceVersion += "0"
	must.Do(t, node.RemovePod(klog.Background(), assumed))
	node.AddPod(pod)
	return pod
}

// publish publishes what the agent of a node allocates when it follows the prediction.
func publish(t testing.TB, p *Plugin, node fwk.NodeInfo) {
	t.Helper()
	report := p.shared.reports.Of(node.Node())
	obj := must.Get(nodetopology.FromMachine(node.Node().Name, report.Machine(), report.State))(t)
	p.shared.reports.Set(p.shared.reports.Read(withAllocations(t, obj, allocate(p, node, report))))
	p.published(node.Node().Name)
}

// snapshotOf is a framework handle for Reserve.
type snapshotOf struct {
	fwk.Handle
	nodes map[string]fwk.NodeInfo
}

func (s snapshotOf) SnapshotSharedLister() fwk.SharedLister { return listerOf{nodes: s.nodes} }

type listerOf struct {
	fwk.SharedLister
	nodes map[string]fwk.NodeInfo
}

func (l listerOf) NodeInfos() fwk.NodeInfoLister { return nodesOf{nodes: l.nodes} }

type nodesOf struct {
	fwk.NodeInfoLister
	nodes map[string]fwk.NodeInfo
}

func (n nodesOf) List() ([]fwk.NodeInfo, error) { return slices.Collect(maps.Values(n.nodes)), nil }

func (n nodesOf) Get(name string) (fwk.NodeInfo, error) {
	if info := n.nodes[name]; info != nil {
		return info, nil
	}
	return nil, fmt.Errorf("no node %s", name)
}

// lastingState is the node's state for the scheduler's snapshot.
func lastingState(p *Plugin, node fwk.NodeInfo) *nodeState {
	return p.nodes.stateOf(node, p.shared.reports.Of(node.Node()), stateUse{})
}
