// Package autoscalers shows pods that ask for CPUs to Karpenter's simulation of scheduling, with the
// requests that they were created with and with those that the admission policy stores. The pods
// are in testdata/pods.json, which a test of package kube/admission writes with the API server's
// own evaluation of the policy. And it shows the usage of recorded programs to the recommender of the
// Vertical Pod Autoscaler.
//
// It is a module of its own, so that these take no part in choosing Pinfold's versions.
package autoscalers

import (
	"encoding/json"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	provisioning "sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/operator/options"
	"sigs.k8s.io/karpenter/pkg/scheduling"
)

// pods are a cluster's pods: one on node n1 with 4 exclusive CPUs, one on n2 with 6, and two that
// wait for 5 and for 12. Each requests 1 CPU as it was created.
type pods struct{ OnN1, OnN2, Waits, TooLarge *corev1.Pod }

// TestKarpenter: two nodes of 8 CPUs have 4 and 2 CPUs left. With the requests that are stored,
// Karpenter adds a node for a pod with 5 exclusive CPUs, none for a pod with 12, because its
// largest instance type has 8, and removes neither node. With the requests that the pods were
// created with it does the opposite of each.
func TestKarpenter(t *testing.T) {
	text, err := os.ReadFile("testdata/pods.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Stored, Created pods }
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name   string
		pods   pods
		raised bool
	}{{"requests are raised", file.Stored, true}, {"requests are kept", file.Created, false}} {
		t.Run(test.name, func(t *testing.T) {
			p := test.pods
			if got := solve(t, p, []string{"n1", "n2"}, p.Waits); got.adds != test.raised || got.refuses {
				t.Errorf("for a pod with 5 CPUs: %+v", got)
			}
			if got := solve(t, p, []string{"n1", "n2"}, p.TooLarge); got.adds || got.refuses != test.raised {
				t.Errorf("for a pod with 12 CPUs: %+v", got)
			}
			// What consolidation asks (disruption/helpers.go, SimulateScheduling): do the pods of a
			// node fit on the others?
			if got := solve(t, p, []string{"n2"}, p.OnN1); got.adds != test.raised || got.refuses {
				t.Errorf("without n1: %+v", got)
			}
			if got := solve(t, p, []string{"n1"}, p.OnN2); got.adds != test.raised || got.refuses {
				t.Errorf("without n2: %+v", got)
			}
		})
	}
}

// result is what Karpenter does about a pod: it adds a node, or refuses the pod, or neither,
// because the pod fits on a node that is there.
type result struct{ adds, refuses bool }

// solve asks Karpenter's scheduler about a pod in a cluster of some nodes and the pods on them.
func solve(t *testing.T, all pods, nodes []string, pod *corev1.Pod) result {
	t.Helper()
	ctx := options.ToContext(t.Context(), &options.Options{PreferencePolicy: options.PreferencePolicyRespect, MinValuesPolicy: options.MinValuesPolicyStrict})
	apis := fake.NewClientBuilder().WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string {
		return []string{o.(*corev1.Pod).Spec.NodeName}
	}).Build()
	cluster := state.NewCluster(clock.RealClock{}, apis, nil)
	for _, name := range nodes {
		bound := map[string]*corev1.Pod{"n1": all.OnN1, "n2": all.OnN2}[name].DeepCopy()
		bound.Spec.NodeName = name
		if err := apis.Create(ctx, bound); err != nil {
			t.Fatal(err)
		}
		if err := cluster.UpdateNode(ctx, nodeOf(name)); err != nil {
			t.Fatal(err)
		}
	}
	pool := &v1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	pool.Spec.Template.Spec.NodeClassRef = &v1.NodeClassReference{}
	types := map[string][]*cloudprovider.InstanceType{pool.Name: {eightCPUs()}}
	waiting := []*corev1.Pod{pod.DeepCopy()}
	topology, err := provisioning.NewTopology(ctx, apis, cluster, cluster.DeepCopyNodes(), []*v1.NodePool{pool}, types, waiting)
	if err != nil {
		t.Fatal(err)
	}
	scheduler := provisioning.NewScheduler(ctx, apis, []*v1.NodePool{pool}, cluster, cluster.DeepCopyNodes(), topology, types, nil,
		events.NewRecorder(&record.FakeRecorder{}), clock.RealClock{}, nil, nil)
	results, err := scheduler.Solve(ctx, waiting)
	if err != nil {
		t.Fatal(err)
	}
	return result{adds: len(results.NewNodeClaims) > 0, refuses: len(results.PodErrors) > 0}
}

func size() corev1.ResourceList {
	return corev1.ResourceList{"cpu": resource.MustParse("8"), "memory": resource.MustParse("32Gi"), "pods": resource.MustParse("110")}
}

func labels(name string) map[string]string {
	return map[string]string{corev1.LabelHostname: name, corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux",
		corev1.LabelTopologyZone: "a", corev1.LabelInstanceTypeStable: "eight", v1.CapacityTypeLabelKey: v1.CapacityTypeOnDemand}
}

func nodeOf(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels(name)}, Status: corev1.NodeStatus{Capacity: size(), Allocatable: size()}}
}

// eightCPUs is the only instance type that can be had.
func eightCPUs() *cloudprovider.InstanceType {
	requirements := scheduling.NewLabelRequirements(labels("any"))
	delete(requirements, corev1.LabelHostname)
	offering := scheduling.NewLabelRequirements(map[string]string{v1.CapacityTypeLabelKey: v1.CapacityTypeOnDemand, corev1.LabelTopologyZone: "a"})
	return &cloudprovider.InstanceType{Name: "eight", Requirements: requirements, Capacity: size(), Overhead: &cloudprovider.InstanceTypeOverhead{},
		Offerings: cloudprovider.Offerings{{Requirements: offering, Price: 1, Available: true}}}
}
