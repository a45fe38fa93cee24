package cluster

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

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
