package simnode_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/local/simnode"
	"pinfold.dev/pinfold/test/must"
)

func TestObjectDescribesTheMachine(t *testing.T) {
	node := simnode.Node{
		Name:         "n1",
		Machine:      topology.Intel104().MustBuild(),
		Labels:       map[string]string{"policy": "intel7"},
		ReservedCPUs: cpuset.MustParse("0,52"),
	}
	object := node.Object()
	status := object.Status
	for _, test := range []struct {
		what      string
		got, want int64
	}{
		{"CPUs", status.Capacity.Cpu().Value(), 104},
		{"allocatable CPUs", status.Allocatable.Cpu().Value(), 102},
		{"memory", status.Capacity.Memory().Value(), 2 * 192 << 30},
		{"allocatable memory", status.Allocatable.Memory().Value(), 2 * 192 << 30},
	} {
		if test.got != test.want {
			t.Errorf("%s: %d, want %d", test.what, test.got, test.want)
		}
	}
	if pods := status.Allocatable.Pods().Value(); pods < 110 {
		t.Errorf("capacity of %d pods, less than on a real node", pods)
	}
	if object.Labels["policy"] != "intel7" || object.Labels["kubernetes.io/hostname"] != "n1" {
		t.Errorf("labels %v", object.Labels)
	}
	if object.Annotations["kwok.x-k8s.io/node"] != "fake" {
		t.Errorf("KWOK would not simulate it: annotations %v", object.Annotations)
	}
}

func TestTopologyIsTheMachine(t *testing.T) {
	machine := topology.AMD256().MustBuild()
	node := simnode.Node{Name: "n1", Machine: machine, ReservedCPUs: cpuset.MustParse("0-3")}
	object := must.Get(node.Topology("uid"))(t)
	got, state, err := nodetopology.ToMachine(object)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(machine, got, cmpopts.EquateComparable(cpuset.Set{})); diff != "" {
		t.Error(diff)
	}
	if uid := nodetopology.NodeUID(object); uid != "uid" {
		t.Errorf("the topology belongs to node %q", uid)
	}
	if object.Name != "n1" || state.ReservedCPUs != node.ReservedCPUs || state.KubeletPolicy != nodetopology.KubeletPolicyNone {
		t.Errorf("name %q, state %+v", object.Name, state)
	}
}

func TestUnknownMemory(t *testing.T) {
	node := simnode.Node{Name: "n", Machine: topology.Shape{CoresPerLLC: 4}.MustBuild()}
	if got := node.Object().Status.Capacity.Memory().Value(); got != 16<<30 {
		t.Errorf("%d bytes, want %d", got, 16<<30)
	}
}

func TestNodesHaveDifferentNames(t *testing.T) {
	machine := topology.Shape{CoresPerLLC: 4}.MustBuild()
	nodes := simnode.Nodes([]simnode.Group{
		{Name: "a", Machine: machine, Count: 2},
		{Name: "b", Machine: machine, Count: 0},
		{Name: "a", Machine: machine, Count: 1, Labels: map[string]string{"last": "yes"}},
	})
	var names []string
	for _, node := range nodes {
		names = append(names, node.Name)
	}
	if diff := cmp.Diff([]string{"a-0", "a-1", "a-2"}, names); diff != "" {
		t.Error(diff)
	}
	if nodes[2].Labels["last"] != "yes" || nodes[0].Labels != nil {
		t.Errorf("labels are not those of the group: %v", nodes)
	}
}
