package api

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/test/must"
)

// claimMachine has the CPUs 0-3 on NUMA node 0, 4-7 on node 1, 8 on none, 9 offline, and node 2
// without CPUs.
func claimMachine(t testing.TB) *topology.Machine {
	t.Helper()
	m := topology.Shape{Packages: 2, CoresPerLLC: 4}.MustBuild()
	m.CPUs = append(m.CPUs, topology.CPU{ID: 8, Core: 8, LLC: 1, NUMA: topology.NoNUMA, Package: 1, Die: 1})
	m.Offline = cpuset.Of(9)
	m.NUMANodes = append(m.NUMANodes, topology.NUMANode{ID: 2})
	for i := range m.NUMANodes {
		m.NUMANodes[i].Distances = []int{20, 20, 20}
		m.NUMANodes[i].Distances[i] = 10
	}
	must.Do(t, m.Validate())
	return m
}

func TestClaim(t *testing.T) {
	m := claimMachine(t)
	runTranscript(t, "testdata/claim.txt", func(pod *corev1.Pod) string {
		known, err := claimOfText(pod, m)
		unknown, unknownErr := claimOfText(pod, nil)
		out := describeClaim(t, known, err)
		if without := describeClaim(t, unknown, unknownErr); without != out {
			out += "while the machine is not known:\n" + without
		}
		if a, err := DecodeAllocation(pod.Annotations[allocatedKey]); err == nil {
			if err := a.Matches(pod); err != nil {
				out += fmt.Sprintf("it does not match: %v\n", err)
			}
		}
		return out
	})
}

// allocatedKey is the key under which pods of tests have the text of their allocation.
const allocatedKey = "allocation"

// claimOfText returns the claim of a pod with the allocation in its text.
func claimOfText(pod *corev1.Pod, m *topology.Machine) (ledger.Claim, error) {
	var all Allocations
	if text, ok := pod.Annotations[allocatedKey]; ok {
		a, err := DecodeAllocation(text)
		if err != nil {
			claim, _, _ := all.Claim(pod, m)
			return claim, err
		}
		all = Allocations{pod.UID: a}
	}
	claim, _, err := all.Claim(pod, m)
	return claim, err
}

func describeClaim(t *testing.T, c ledger.Claim, err error) string {
	var b strings.Builder
	if c.ID != "uid-1" {
		t.Errorf("ID %q, want the pod's UID", c.ID)
	}
	for _, own := range c.Containers {
		fmt.Fprintf(&b, "%s %s %s: %d, request %v:", own.Policy, roleName(own.Role), own.Name, own.Limit, own.Request)
		if own.Policy == placement.Static {
			fmt.Fprintf(&b, " CPUs %v", own.CPUs)
		}
		if own.NUMANodes != nil {
			fmt.Fprintf(&b, " NUMA nodes %v", own.NUMANodes)
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "shared request: %v\n", c.SharedRequest)
	if err != nil {
		fmt.Fprintf(&b, "error: %v\n", err)
	}
	return b.String()
}

// TestAskAlike: only these edits change which CPUs a bound pod asks for.
func TestAskAlike(t *testing.T) {
	bound := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{CPUSetSchedulerAnnotation: "true"}},
		Spec: corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "app",
			Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("4")}}}}},
	}
	for _, test := range []struct {
		name string
		edit func(*corev1.Pod)
		want bool
	}{
		{"nothing", func(*corev1.Pod) {}, true},
		{"its status", func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }, true},
		{"another annotation", func(p *corev1.Pod) { p.Annotations["cni"] = "ready" }, true},
		{"the same limit in another alias", func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Limits["cpu"] = resource.MustParse("4000m")
		}, true},
		{"the limit", func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Limits["cpu"] = resource.MustParse("6") }, false},
		{"it no longer asks", func(p *corev1.Pod) { delete(p.Annotations, CPUSetSchedulerAnnotation) }, false},
		{"a second key", func(p *corev1.Pod) { p.Annotations["cpuset-scheduler"] = "false" }, false},
		{"an empty second key", func(p *corev1.Pod) { p.Annotations["cpuset-scheduler"] = "" }, false},
		{"the policy", func(p *corev1.Pod) { p.Annotations["cpu-policy"] = "none" }, false},
	} {
		edited := bound.DeepCopy()
		test.edit(edited)
		if got := AskAlike(bound, edited); got != test.want {
			t.Errorf("%s: %t, want %t", test.name, got, test.want)
		}
		if got := AskAlike(edited, bound); got != test.want {
			t.Errorf("%s, put back: %t, want %t", test.name, got, test.want)
		}
	}
}

// TestClaimOfAllocation: the CPUs of a pod that is not listed are its own, also if init containers
// have some of them.
func TestClaimOfAllocation(t *testing.T) {
	a := Allocation{Version: 1, Node: "n", Policy: placement.Static, Containers: []ContainerAllocation{
		{Name: "init", CPUs: cpuset.Of(1)}, {Name: "main", CPUs: cpuset.Of(0, 1, 4)}}}
	books := ledger.New(placement.NewIndex(topology.Shape{CoresPerLLC: 8}.MustBuild()), ledger.Config{}, a.Claim("uid"))
	if got := books.Exclusive(); got != cpuset.Of(0, 1, 4) {
		t.Errorf("CPUs %s are exclusive: %v", got, books.Conflicts())
	}
}

// TestCountedClaims: with DRANodeAllocatableResources the scheduler counts the CPUs of claims, and
// the containers need not request them. An init container that runs on CPUs of the main container
// is not counted again.
func TestCountedClaims(t *testing.T) {
	pod := readPod(t, "counted", "init: [setup]\ncontainers: [app, side 500m/-]\nnode: n1")
	own := must.Get(cpuset.Parse("0-1"))(t)
	a := Allocation{Policy: placement.Static, Claims: []ClaimRef{{Name: "a"}, {Name: "b"}},
		Containers: []ContainerAllocation{{Name: "setup", CPUs: own}, {Name: "app", CPUs: own}}}
	for counted, want := range map[string]string{"a=2": "", "a=1 b=1": "", "a=1": "its resource claims ask for 2", "a=1 other=1": "its resource claims ask for 2"} {
		pod.Status.NodeAllocatableResourceClaimStatuses = nil
		for word := range strings.FieldsSeq(counted) {
			name, cpus, _ := strings.Cut(word, "=")
			pod.Status.NodeAllocatableResourceClaimStatuses = append(pod.Status.NodeAllocatableResourceClaimStatuses, corev1.NodeAllocatableResourceClaimStatus{
				ResourceClaimName: name, Mapping: []corev1.NodeAllocatableMappedResources{{Name: corev1.ResourceCPU, Quantity: new(resource.MustParse(cpus))}}})
		}
		if err := a.Matches(pod); fmt.Sprint(err) == "<nil>" != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("counted %s: %v, want %q", counted, err, want)
		}
	}
}

// TestClaimsOfInitContainers: schedulers count the largest request of init containers, so their claims
// must not add up to more.
func TestClaimsOfInitContainers(t *testing.T) {
	requests := corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}}
	pod := &corev1.Pod{Spec: corev1.PodSpec{InitContainers: []corev1.Container{{Name: "a", Resources: requests}, {Name: "b", Resources: requests}},
		Containers: []corev1.Container{{Name: "app", Resources: requests}}}}
	need := map[string]int{"a": 4, "b": 4, "app": 4}
	if err := ClaimsRequested(pod, nil, 4, need); err != nil { // the same CPUs
		t.Error(err)
	}
	if err := ClaimsRequested(pod, nil, 12, need); err == nil || !strings.Contains(err.Error(), "the pod requests 4 CPUs, and its resource claims ask for 12") {
		t.Errorf("12 CPUs: %v", err)
	}
}
