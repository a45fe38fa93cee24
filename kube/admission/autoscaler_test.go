package admission

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/must"
)

// autoscaler asks the questions of Cluster Autoscaler in its way: with kube-scheduler's framework,
// the default plugins and copies of nodes (simulator/clustersnapshot/predicate/plugin_runner.go).
// It knows nothing of Pinfold.
type autoscaler struct {
	t         *testing.T
	framework framework.Framework
	snapshot  *cache.Snapshot
}

func newAutoscaler(t *testing.T, nodes []*corev1.Node, pods []*corev1.Pod) *autoscaler {
	t.Helper()
	metrics.Register()
	configuration, err := latest.Default()
	if err != nil {
		t.Fatal(err)
	}
	profile := &configuration.Profiles[0]
	profile.Plugins.MultiPoint.Enabled = slices.DeleteFunc(profile.Plugins.MultiPoint.Enabled, func(p config.Plugin) bool {
		return p.Name == names.DynamicResources // needs the cluster's claims; these pods have none
	})
	a := &autoscaler{t: t, snapshot: cache.NewSnapshot(pods, nodes)}
	client := fake.NewClientset()
	a.framework, err = frameworkruntime.NewFramework(t.Context(), plugins.NewInTreeRegistry(), profile,
		frameworkruntime.WithClientSet(client), frameworkruntime.WithInformerFactory(informers.NewSharedInformerFactory(client, 0)),
		frameworkruntime.WithSnapshotSharedLister(a.snapshot))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// fits reports whether a pod fits on a node.
func (a *autoscaler) fits(pod *corev1.Pod, node fwk.NodeInfo) bool {
	a.t.Helper()
	state := framework.NewCycleState()
	if _, status, _ := a.framework.RunPreFilterPlugins(a.t.Context(), state, pod); !status.IsSuccess() {
		a.t.Fatal(status)
	}
	status := a.framework.RunFilterPlugins(a.t.Context(), state, pod, node)
	if status.Code() == fwk.Error {
		a.t.Fatal(status)
	}
	return status.IsSuccess()
}

// somewhere returns a node on which the pod fits, and nil if a node has to be added for it. If the
// pod is on a node, that one is not considered: the node is to be removed.
func (a *autoscaler) somewhere(pod *corev1.Pod) fwk.NodeInfo {
	a.t.Helper()
	nodes, err := a.snapshot.NodeInfos().List()
	if err != nil {
		a.t.Fatal(err)
	}
	elsewhere := pod.DeepCopy()
	elsewhere.Spec.NodeName = ""
	for _, node := range nodes {
		if node.Node().Name != pod.Spec.NodeName && a.fits(elsewhere, node) {
			return node
		}
	}
	return nil
}

// removable reports whether all pods of a node fit on the other nodes together.
func (a *autoscaler) removable(name string) bool {
	a.t.Helper()
	node, err := a.snapshot.NodeInfos().Get(name)
	if err != nil {
		a.t.Fatal(err)
	}
	for _, pod := range node.GetPods() {
		target := a.somewhere(pod.GetPod())
		if target == nil {
			return false
		}
		info, err := framework.NewPodInfo(pod.GetPod())
		if err != nil {
			a.t.Fatal(err)
		}
		target.AddPodInfo(info)
	}
	return true
}

// used returns the part of a node's CPUs that is requested, in percent. Nodes below a threshold are
// candidates for a removal.
func (a *autoscaler) used(name string) int64 {
	node, err := a.snapshot.NodeInfos().Get(name)
	if err != nil {
		a.t.Fatal(err)
	}
	return 100 * node.GetRequested().GetMilliCPU() / node.GetAllocatable().GetMilliCPU()
}

func nodeOf(name string) *corev1.Node {
	size := corev1.ResourceList{"cpu": resource.MustParse("8"), "memory": resource.MustParse("32Gi"), "pods": resource.MustParse("110")}
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Capacity: size, Allocatable: size}}
}

// TestClusterAutoscaler: two nodes of 8 CPUs have one pod each, with 4 and 6 exclusive CPUs, of
// which it requests 1. With the requests that are stored, Cluster Autoscaler sees that a pod with 5
// more needs a new node, that no new node helps one with 12, and that neither node can be removed;
// with those that the pods were created with it sees none of this.
func TestClusterAutoscaler(t *testing.T) {
	server := newServer(t)
	for _, test := range []struct {
		name                    string
		create                  func(pod *corev1.Pod) *corev1.Pod
		addsNode, removes, busy bool
	}{
		{"requests are raised", func(pod *corev1.Pod) *corev1.Pod { raised, _ := server.create(t, pod); return raised }, true, false, true},
		{"requests are kept", func(pod *corev1.Pod) *corev1.Pod { return pod }, false, true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			var pods []*corev1.Pod
			for node, cpus := range map[string]string{"n1": "4", "n2": "6"} {
				pod := test.create(requesting("on-"+node, "1", cpus))
				pod.Spec.NodeName = node
				pods = append(pods, pod)
			}
			a := newAutoscaler(t, []*corev1.Node{nodeOf("n1"), nodeOf("n2")}, pods)
			waits := test.create(requesting("waits", "1", "5")) // the nodes have 4 and 2 CPUs left
			if got := a.somewhere(waits) == nil; got != test.addsNode {
				t.Errorf("adds a node: %v", got)
			}
			template := framework.NewNodeInfo()
			template.SetNode(nodeOf("template"))
			if !a.fits(waits, template) {
				t.Error("the pod does not fit on a new node")
			}
			if got := !a.fits(test.create(requesting("too-large", "1", "12")), template); got != test.addsNode {
				t.Errorf("a new node would not help: %v", got)
			}
			for _, node := range []string{"n1", "n2"} {
				if got := a.used(node) >= 50; got != test.busy {
					t.Errorf("%s is used by %d%%", node, a.used(node))
				}
				if got := newAutoscaler(t, []*corev1.Node{nodeOf("n1"), nodeOf("n2")}, pods).removable(node); got != test.removes {
					t.Errorf("%s is removable: %v", node, got)
				}
			}
		})
	}
}

// TestKarpenterPods keeps the pods that test/karpenter shows to Karpenter, as they are created and
// as they are stored.
func TestKarpenterPods(t *testing.T) {
	server := newServer(t)
	created, stored := map[string]*corev1.Pod{}, map[string]*corev1.Pod{}
	for name, cpus := range map[string]string{"onN1": "4", "onN2": "6", "waits": "5", "tooLarge": "12"} {
		created[name] = requesting(strings.ToLower(name), "1", cpus)
		stored[name], _ = server.create(t, created[name])
	}
	text := must.Get(json.MarshalIndent(map[string]any{"created": created, "stored": stored}, "", "  "))(t)
	golden.Compare(t, "../../test/karpenter/testdata/pods.json", string(text)+"\n")
}
