package cluster

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/admission"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/nodetopology"
)

// change changes the topology of a node and restores it after the test.
func (c *test) changeTopology(node string, change func(*nodetopology.NodeTopology)) {
	c.Helper()
	before := c.topology(node)
	changed := before.DeepCopy()
	change(changed)
	nodes := c.topologies
	_, err := nodes.Update(c.Context(), changed, metav1.UpdateOptions{})
	c.must(err)
	c.Cleanup(func() { c.restoreTopology(before) })
}

// createWaiting creates a pod that must wait because of a preceding change. It recreates the pod as
// long as the scheduler, which has not received the change yet, binds it.
func (c *test) createWaiting(manifest, text string) {
	c.Helper()
	pods := c.client.CoreV1().Pods("default")
	c.eventually(func() string {
		pod := c.create(manifest)
		c.eventually(func() string {
			if pod = c.pod(pod.Name); pod.Spec.NodeName == "" && waitsFor(pod) == "" {
				return "pod " + pod.Name + " has not been tried"
			}
			return ""
		})
		if pod.Spec.NodeName == "" {
			return ""
		}
		c.must(pods.Delete(c.Context(), pod.Name, *metav1.NewDeleteOptions(0)))
		return fmt.Sprintf("pod %s is bound to %s", pod.Name, pod.Spec.NodeName)
	})
	var pod corev1.Pod
	c.must(yaml.UnmarshalStrict([]byte(manifest), &pod))
	c.waits(pod.Name, text)
}

func TestTopologyMissing(t *testing.T) {
	c := begin(t)
	before := c.topology(small0)
	c.must(c.topologies.Delete(t.Context(), small0, metav1.DeleteOptions{}))
	c.createWaiting(asking("asks", 2, ""), "1 has not reported its CPU topology")
	c.create(`
metadata: {name: plain}
spec:
  nodeSelector: {kubernetes.io/hostname: ` + small0 + `}
  containers: [{name: app, image: app, resources: {requests: {cpu: 1}}}]
`)
	c.bound("plain")
	c.restoreTopology(before)
	c.bound("asks")
}

func TestTopologyMalformed(t *testing.T) {
	c := begin(t)
	c.changeTopology(small0, func(obj *nodetopology.NodeTopology) { obj.Machine.Packages = "" })
	c.createWaiting(asking("asks", 2, ""), "1 has reported a CPU topology that cannot be used (NodeTopology "+small0+": ")
}

// TestTopologyGoesWithItsNode: the topology of a node is deleted with it. A pod that waits for a
// node, as for an autoscaler, is bound when a new node of the same name has reported a new one.
func TestTopologyGoesWithItsNode(t *testing.T) {
	c := begin(t)
	const name = small1
	node, err := c.client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	c.must(err)
	report := c.topology(name)
	if uid := nodetopology.NodeUID(report); uid != node.UID {
		t.Fatalf("the topology belongs to the node %q, but the node is %q", uid, node.UID)
	}
	c.must(c.client.CoreV1().Nodes().Delete(t.Context(), name, metav1.DeleteOptions{}))
	c.eventually(func() string {
		_, err := c.topologies.Get(t.Context(), name, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Sprintf("the topology of the deleted node is still there (%v)", err)
		}
		return ""
	})
	c.create(strings.ReplaceAll(asking("asks", 2, ""), small0, name))
	c.waits("asks", "didn't match Pod's node affinity/selector")
	node.ResourceVersion, node.UID = "", ""
	node, err = c.client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
	c.must(err)
	c.waits("asks", "1 has not reported its CPU topology")
	nodetopology.OwnedByNode(report, node.UID)
	c.restoreTopology(report)
	c.bound("asks")
}

// TestAgentAllocates: a node whose agent allocates takes pods by their requests, without an
// allocation. What the agent has given stays with its pod when the scheduler allocates again.
func TestAgentAllocates(t *testing.T) {
	c := begin(t)
	c.namespace("keeps", map[string]string{admission.KeepRequestsLabel: "true"})
	publish := func(given *api.Given) {
		c.changeTopology(small0, func(obj *nodetopology.NodeTopology) {
			m, state, err := nodetopology.ToMachine(obj)
			c.must(err)
			state.Given = given
			now, err := nodetopology.FromMachine(obj.Name, m, state)
			c.must(err)
			obj.Machine, obj.Status, obj.Digest = now.Machine, now.Status, now.Digest
		})
	}
	publish(&api.Given{Allocates: true})
	var asks *corev1.Pod
	c.eventually(func() string { // the scheduler receives the change a moment later
		c.create(asking("asks", 2, ""))
		if asks = c.bound("asks"); asks.Annotations[api.AllocationAnnotation] == "" {
			return ""
		}
		c.must(c.client.CoreV1().Pods("default").Delete(t.Context(), "asks", *metav1.NewDeleteOptions(0)))
		return "the scheduler allocates CPUs of a node whose agent does"
	})
	c.createIn("keeps", `
metadata: {name: low, annotations: {cpuset-scheduler: "true"}}
spec:
  nodeSelector: {kubernetes.io/hostname: `+small0+`}
  containers: [{name: app, image: app, resources: {requests: {cpu: 1}, limits: {cpu: 4}}}]
`)
	c.eventually(func() string {
		pod, err := c.client.CoreV1().Pods("keeps").Get(t.Context(), "low", metav1.GetOptions{})
		c.must(err)
		const want = "1 has a Pinfold agent that allocates CPUs (requests.cpu must equal limits.cpu: container app requests 1 of its 4)"
		if got := waitsFor(pod); pod.Spec.NodeName != "" || !strings.Contains(got, want) {
			return fmt.Sprintf("pod low is on %q and waits for %s", pod.Spec.NodeName, got)
		}
		return ""
	})
	c.create(asking("full", 7, ""))
	c.waits("full", "Insufficient cpu")
	publish(&api.Given{Pods: map[types.UID]api.Allocation{asks.UID: {Version: 1, Node: small0, Policy: placement.Static, Time: time.Now().UTC(),
		Containers: []api.ContainerAllocation{{Name: "app", CPUs: cpuset.Of(0, 1), NUMANodes: []topology.NUMAID{0}}}}}})
	if a := c.allocation(c.boundIn("keeps", "low")); a.Containers[0].CPUs.Intersects(cpuset.Of(0, 1)) {
		t.Errorf("pod low has CPUs %v, of which the agent has given 0-1 to another", a.Containers[0].CPUs)
	}
}

// restoreTopology restores the object of a node.
func (c *test) restoreTopology(want *nodetopology.NodeTopology) {
	ctx, nodes := context.Background(), c.topologies
	obj := want.DeepCopy()
	have, err := nodes.Get(ctx, obj.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		obj.ResourceVersion, obj.UID = "", ""
		if _, err := nodes.Create(ctx, obj, metav1.CreateOptions{}); err != nil {
			c.Error(err)
		}
		return
	}
	if err == nil {
		obj.ResourceVersion, obj.UID = have.ResourceVersion, have.UID
		_, err = nodes.Update(ctx, obj, metav1.UpdateOptions{})
	}
	if err != nil {
		c.Error(err)
	}
}
