package history

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/kube/nodetopology/nodetopologytest"
	"pinfold.dev/pinfold/test/must"
)

// TestTopologyReturns damages and deletes topologies, and deletes nodes, in random orders. The
// garbage collector, which deletes the topologies of deleted nodes, works at random times. In the
// end each node has its topology again.
func TestTopologyReturns(t *testing.T) {
	machine := topology.Shape{NUMAPerPackage: 2, CoresPerLLC: 2}.MustBuild()
	for seed := range uint64(200) {
		const name = "n"
		made := 0
		newUID := func(action k8stesting.Action) (bool, runtime.Object, error) {
			made++
			action.(k8stesting.CreateAction).GetObject().(metav1.Object).SetUID(types.UID(fmt.Sprint(made)))
			return false, nil, nil
		}
		client, topologies := fake.NewClientset(), nodetopologytest.NewFake()
		client.PrependReactor("create", "nodes", newUID)
		topologies.PrependReactor("create", nodetopology.Resource, newUID)
		d := &Driver{Client: client, Topologies: topologies, Random: rand.New(rand.NewPCG(seed, 0)), Victims: []string{name},
			Log: func(string, ...any) {}}
		d.nodes = newDamage(d)
		node, err := client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		object := must.Get(nodetopology.FromMachine(name, machine, nodetopology.State{AgentHealth: nodetopology.AgentHealthy}))(t)
		nodetopology.OwnedByNode(object, node.UID)
		objects := topologies
		if _, err := objects.Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		collect := func() {
			node := must.Get(client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{}))(t)
			if now, err := objects.Get(t.Context(), name, metav1.GetOptions{}); err == nil && now.OwnerReferences[0].UID != node.UID {
				must.Do(t, objects.Delete(t.Context(), name, metav1.DeleteOptions{}))
			}
		}
		operations := []func(context.Context) error{d.nodes.damageTopology, d.nodes.deleteTopology, d.nodes.reregister}
		for d.step = range 20 + maxUndo + 2 {
			must.Do(t, d.nodes.undoDue(t.Context(), d.step))
			if d.step < 20 {
				must.Do(t, operations[d.Random.IntN(len(operations))](t.Context()))
			}
			if d.Random.IntN(2) == 0 {
				collect()
			}
		}
		collect()
		now, err := objects.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || !isIntact(now) || now.Machine != object.Machine {
			t.Fatalf("seed %d: in the end the topology is %+v, %v", seed, now, err)
		}
	}
}
