package demo

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/local/simnode"
	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/must"
)

func TestManifestsAreUnchanged(t *testing.T) {
	objects := must.Get(loadManifests([]string{"nginx-baseline.yaml"}, ""))(t)
	annotations, found, err := unstructured.NestedFieldNoCopy(objects[0].Object, "spec", "template", "metadata", "annotations")
	if annotations != nil || !found || err != nil {
		t.Errorf("annotations %v, found %v, %v; want a null", annotations, found, err)
	}
}

func TestEveryRoundLoads(t *testing.T) {
	want := map[int]int{0: 2, 1: 7, 2: 7}
	for i, r := range rounds() {
		objects := must.Get(loadManifests(r.files, r.policy))(t)
		if got := podCount(objects); got != want[i] {
			t.Errorf("round %d makes %d pods, want %d", i+1, got, want[i])
		}
		for _, object := range objects {
			path := podPath(object.GetKind(), "metadata", "annotations", policyKey)
			if path == nil {
				continue
			}
			policy, _, err := unstructured.NestedString(object.Object, path...)
			if policy != string(r.policy) || (err != nil && i > 0) {
				t.Errorf("round %d: %s has policy %q, want %q (%v)", i+1, object.GetName(), policy, r.policy, err)
			}
		}
	}
}

// add adds a bound pod with this allocation of its only container.
func (w *world) add(t *testing.T, name, node string, limit int64, policy, allocation string) {
	p := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{
			Name: "c",
			Resources: corev1.ResourceRequirements{
				Limits: corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(limit, resource.DecimalSI)},
			},
		}}},
	}
	if policy != "" {
		p.Annotations = map[string]string{"cpuset-scheduler": "true", "cpu-policy": policy}
		w.allocations[p.UID] = must.Get(api.DecodeAllocation(fmt.Sprintf(`{"version":1,"node":%q,"policy":%q,"containers":[{"name":"c",%s}]}`,
			node, policy, allocation)))(t)
	}
	w.pods = append(w.pods, p)
}

// world is the pods of a cluster.
type world struct {
	pods        []corev1.Pod
	allocations api.Allocations
}

func TestShow(t *testing.T) {
	machine := topology.Shape{Packages: 2, LLCsPerNUMA: 2, CoresPerLLC: 2, ThreadsPerCore: 2}.MustBuild()
	v := newView([]simnode.Node{{Name: "n1", Machine: machine}, {Name: "n2", Machine: machine}})
	w := &world{allocations: api.Allocations{}}
	w.add(t, "good", "n1", 4, "static", `"cpus":"0-1,8-9","numaNodes":[0]`)
	w.add(t, "far", "n1", 4, "static", `"cpus":"2,4,6,12","numaNodes":[0,1]`)
	w.add(t, "near", "n2", 4, "static-burst", `"numaNodes":[1]`)
	w.add(t, "wide", "n2", 4, "static-burst", `"numaNodes":[0,1]`)
	w.add(t, "plain", "n1", 4, "", "")
	placements, err := v.placements(w.pods, w.allocations)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	must.Do(t, v.show(Output{Writer: &text}, "A round", placements, true))
	golden.Compare(t, "testdata/show.txt", text.String())
}

func TestPlacementErrors(t *testing.T) {
	machine := topology.Shape{CoresPerLLC: 8}.MustBuild()
	v := newView([]simnode.Node{{Name: "n1", Machine: machine}})
	w := &world{allocations: api.Allocations{}}
	w.add(t, "lost", "n7", 2, "static", `"cpus":"0-1","numaNodes":[0]`)
	if _, err := v.placements(w.pods, w.allocations); err == nil || !strings.Contains(err.Error(), "not a node of this cluster") {
		t.Errorf("a pod on a node that does not exist: %v", err)
	}
}

func TestOptimal(t *testing.T) {
	worse := placed{policy: placement.Static, own: placement.Quality{NUMANodes: 1, SplitCores: 1}, best: placement.Quality{NUMANodes: 1}}
	if worse.optimal() {
		t.Error("a placement with a split core is optimal")
	}
}
