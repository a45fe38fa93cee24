package scheduler

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/test/must"
)

// life simulates the pods of one node in the scheduler's cache, with everything that can happen to
// them.
type life struct {
	t              *testing.T
	plugin         *Plugin
	node           *framework.NodeInfo
	assumed, bound []*corev1.Pod
	pods, version  int
}

// newPod creates a pod, which is assumed if it fits.
func (l *life) newPod(t *rapid.T) {
	l.pods++
	pod := askingPod(fmt.Sprint("p", l.pods), rapid.IntRange(0, 5).Draw(t, "cpus"))
	if len(pod.Annotations) > 0 && rapid.IntRange(0, 3).Draw(t, "burst") == 0 {
		pod.Annotations = map[string]string{api.CPUSetSchedulerAnnotation: "true", api.CPUPolicyAnnotation: "static-burst"}
	}
	state := framework.NewCycleState()
	if _, status := l.plugin.PreFilter(context.Background(), state, pod, []fwk.NodeInfo{l.node}); status.IsRejected() {
		return // larger than the machine
	}
	status := l.plugin.Filter(context.Background(), state, pod, l.node)
	if status.IsRejected() {
		return
	}
	if !status.IsSuccess() {
		t.Fatal(status.AsError())
	}
	l.assumed = append(l.assumed, assume(l.t, l.plugin, state, pod, l.node))
}

// bindingArrives delivers an assumed pod, bound.
func (l *life) bindingArrives(t *rapid.T) {
	if pod := pick(t, &l.assumed); pod != nil {
		l.bound = append(l.bound, comeBack(l.t, pod, l.node))
	}
}

// bindingFails calls Unreserve and takes the pod off the node, as the framework does.
func (l *life) bindingFails(t *rapid.T) {
	if pod := pick(t, &l.assumed); pod != nil {
		l.plugin.Unreserve(context.Background(), nil, pod, l.node.Node().Name)
		l.remove(t, pod)
	}
}

func (l *life) podEnds(t *rapid.T) {
	if pod := pick(t, &l.bound); pod != nil {
		l.remove(t, pod)
	}
}

func (l *life) remove(t *rapid.T, pod *corev1.Pod) {
	must.Do(t, l.node.RemovePod(klog.Background(), pod))
}

// restart replaces the plugin. Assumed pods have been bound or not.
func (l *life) restart(t *rapid.T) {
	for len(l.assumed) > 0 {
		if rapid.Bool().Draw(t, "binding was carried out") {
			l.bindingArrives(t)
			continue
		}
		l.remove(t, pick(t, &l.assumed))
	}
	report := l.plugin.shared.reports.Of(l.node.Node())
	l.plugin = barePlugin(l.t)
	l.plugin.shared.reports.Set(report)
}

// agentAllocates publishes what was predicted.
func (l *life) agentAllocates(*rapid.T) { publish(l.t, l.plugin, l.node) }

// report reports a topology, and no allocations.
func (l *life) report(m *topology.Machine) {
	l.version++
	reportMachine(l.t, l.plugin, "n", m, l.version)
}

func pick(t *rapid.T, from *[]*corev1.Pod) *corev1.Pod {
	if len(*from) == 0 {
		return nil
	}
	i := rapid.IntRange(0, len(*from)-1).Draw(t, "which")
	pod := (*from)[i]
	*from = slices.Delete(*from, i, i+1)
	return pod
}

// check compares the cached books with books derived from the pods, and these with what was allocated.
func (l *life) check(t *rapid.T) {
	p := l.plugin
	now := p.shared.reports.Of(l.node.Node())
	kept := lastingState(p, l.node).books
	fresh := p.derive(l.node, now, stateUse{}).books
	if diff := cmp.Diff(fresh.Claims(), kept.Claims(), cmpopts.EquateComparable(cpuset.Set{}), cmpopts.IgnoreFields(ledger.Claim{}, "Rank")); diff != "" {
		t.Fatalf("the cached books differ from the pods on the node (-pods +cached):\n%s", diff)
	}
	if len(fresh.Conflicts()) > 0 || len(fresh.Overflow()) > 0 {
		t.Fatalf("conflicts %v, overflow %v, although this scheduler bound all pods", fresh.Conflicts(), fresh.Overflow())
	}
	allocated := l.plugin.shared.reports.Of(l.node.Node()).Allocations()
	for _, pod := range slices.Concat(l.bound, l.assumed) {
		claim, _ := l.plugin.nodes.claimOf(l.node.Node(), pod)
		if a, ok := allocated[pod.UID]; ok && !matches(a, claim.Containers) {
			t.Fatalf("pod %s has %+v in the books, and was allocated %+v", pod.Name, claim, a)
		}
		if asks, _ := api.Asks(pod); asks && len(claim.Containers) == 0 {
			t.Fatalf("pod %s fits, and has no place in the books", pod.Name)
		}
	}
}

func TestBooksFollowPods(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		shape := topology.Shape{Packages: 2, CoresPerLLC: rapid.IntRange(1, 4).Draw(rt, "cores"), ThreadsPerCore: 2}
		machine := shape.MustBuild()
		l := &life{t: t, plugin: barePlugin(t), node: nodeInfoOf("n", len(machine.CPUs))}
		l.report(machine)
		rt.Repeat(map[string]func(*rapid.T){
			"new pod":         l.newPod,
			"new pod again":   l.newPod,
			"binding arrives": l.bindingArrives,
			"binding fails":   l.bindingFails,
			"pod ends":        l.podEnds,
			"restart":         l.restart,
			"agent allocates": l.agentAllocates,
			"":                l.check,
		})
	})
}
