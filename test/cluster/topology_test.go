package cluster

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pinfold.dev/pinfold/kube/nodetopology"
)

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
	c.eventually("the topology of the deleted node is gone", func() error {
		if _, err := c.topologies.Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("still there (%w)", err)
		}
		return nil
	})
	c.create(strings.ReplaceAll(asking("asks", 2, ""), small0, name))
	c.waits("asks", "didn't match Pod's node affinity/selector")
	node.ResourceVersion, node.UID = "", ""
	node, err = c.client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
	c.must(err)
	c.waits("asks", "1 has not reported its CPU topology")
	nodetopology.OwnedByNode(report, node.UID)
	report.ResourceVersion, report.UID = "", ""
	_, err = c.topologies.Create(t.Context(), report, metav1.CreateOptions{})
	c.must(err)
	c.bound("asks")
}
