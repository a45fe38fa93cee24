package dra

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/test/busy"
	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/need"
)

// testPod is a pod with resource claims, in short form.
type testPod struct {
	Init, Containers []testContainer
	Claims           []testClaim
	Extended         map[string]string // container by request, of the only claim, which the scheduler made
	Given            map[string]string // CPUs by container
}

type testContainer struct {
	Name    string
	Uses    []string // CLAIM or CLAIM/REQUEST
	Sidecar bool
}

// testClaim is an allocated claim. Its results are of this driver and node unless they say
// otherwise. Without users, the pod uses it.
type testClaim struct {
	Name    string
	Users   []resourceapi.ResourceClaimConsumerReference
	Pending bool
	Results []resourceapi.DeviceRequestAllocationResult
	Config  []resourceapi.DeviceAllocationConfiguration
}

const (
	testNode = "n1"
	testUID  = types.UID("pod-1")
)

// testDevices are those of two NUMA nodes with two cores of two threads each.
var testDevices = Devices(topology.Shape{Packages: 2, CoresPerLLC: 2, ThreadsPerCore: 2}.MustBuild(), ByNUMA)

// objects returns the pod and its claims.
func (p *testPod) objects() (*corev1.Pod, []*resourceapi.ResourceClaim) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: testUID}}
	var claims []*resourceapi.ResourceClaim
	for _, c := range p.Claims {
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: c.Name, ResourceClaimName: &c.Name})
		claims = append(claims, c.object())
	}
	for request, container := range p.Extended {
		pod.Spec.ResourceClaims = nil
		if pod.Status.ExtendedResourceClaimStatus == nil {
			pod.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: p.Claims[0].Name}
		}
		s := pod.Status.ExtendedResourceClaimStatus
		s.RequestMappings = append(s.RequestMappings, corev1.ContainerExtendedResourceRequest{ContainerName: container, RequestName: request})
	}
	for _, c := range p.Init {
		container := c.object()
		if c.Sidecar {
			container.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, container)
	}
	for _, c := range p.Containers {
		pod.Spec.Containers = append(pod.Spec.Containers, c.object())
	}
	return pod, claims
}

func (c testContainer) object() corev1.Container {
	container := corev1.Container{Name: c.Name}
	for _, use := range c.Uses {
		name, request, _ := strings.Cut(use, "/")
		container.Resources.Claims = append(container.Resources.Claims, corev1.ResourceClaim{Name: name, Request: request})
	}
	return container
}

func (c *testClaim) object() *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: c.Name, UID: types.UID(c.Name + "-uid")}}
	if claim.Status.ReservedFor = c.Users; c.Users == nil {
		claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "p", UID: testUID}}
	}
	if c.Pending {
		return claim
	}
	devices := resourceapi.DeviceAllocationResult{Results: slices.Clone(c.Results), Config: c.Config}
	for i := range devices.Results {
		r := &devices.Results[i]
		r.Driver, r.Pool = cmp.Or(r.Driver, Driver), cmp.Or(r.Pool, testNode)
	}
	claim.Status.Allocation = &resourceapi.AllocationResult{Devices: devices}
	return claim
}

// read does what the driver does with the claims of a pod.
func (p *testPod) read() (Request, error) {
	pod, claims := p.objects()
	uid, err := PodOf(claims)
	if err != nil {
		return Request{}, err
	}
	if uid != testUID {
		return Request{}, fmt.Errorf("the claims are of pod %s", uid)
	}
	return Read(pod, claims, testNode, testDevices)
}

// TestRequests plays testdata/requests.txt: after a line "=== title" a pod in short form, a line
// "---", and what its claims ask for, and how its CPUs are divided.
func TestRequests(t *testing.T) {
	const file = "testdata/requests.txt"
	var out strings.Builder
	head, rest, _ := strings.Cut(string(must.Get(os.ReadFile(file))(t)), "=== ")
	out.WriteString(head)
	for text := range strings.SplitSeq(rest, "\n=== ") {
		given, _, _ := strings.Cut(text, "\n---")
		_, short, _ := strings.Cut(given, "\n")
		var p testPod
		must.Do(t, yaml.UnmarshalStrict([]byte(short), &p))
		fmt.Fprintf(&out, "=== %s\n---\n%s\n", given, p.answer())
	}
	golden.Compare(t, file, strings.TrimRight(out.String(), "\n")+"\n")
}

// answer returns what the claims ask for, or the error.
func (p *testPod) answer() string {
	r, err := p.read()
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	var out strings.Builder
	own := r.Divide(p.allocation())
	for i, part := range r.Parts {
		fmt.Fprintf(&out, "%s gets %d CPUs of %s for %s/%s", part.Container, part.CPUs, part.Within, part.Claim.Name, part.Result.Request)
		if part.FullCores != "" {
			fmt.Fprintf(&out, ", full cores %s", part.FullCores)
		}
		if p.Given != nil {
			fmt.Fprintf(&out, ": %s", own[i])
		}
		out.WriteString("\n")
	}
	for _, name := range slices.Sorted(maps.Keys(r.Shares)) {
		fmt.Fprintf(&out, "%s runs on the CPUs of %s\n", name, r.Shares[name])
	}
	return cmp.Or(out.String(), "nothing\n")
}

// allocation returns the CPUs that the containers were given.
func (p *testPod) allocation() (a api.Allocation) {
	for name, list := range p.Given {
		cpus, err := cpuset.Parse(list)
		if err != nil {
			panic(err) // a mistake in testdata
		}
		a.Containers = append(a.Containers, api.ContainerAllocation{Name: name, CPUs: cpus})
	}
	return a
}

// TestLongParameters: what a tenant can write does not make an event long.
func TestLongParameters(t *testing.T) {
	long := strings.Repeat("x", 10<<10)
	for _, parameters := range []string{
		fmt.Sprintf(`{"apiVersion":%q,"kind":%q}`, ParametersVersion, long),
		fmt.Sprintf(`{%q:1}`, long),
		fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"fullCores":%q}`, ParametersVersion, ParametersKind, long),
	} {
		p := testPod{Containers: []testContainer{{Name: "app", Uses: []string{"a"}}}, Claims: []testClaim{{Name: "a",
			Results: []resourceapi.DeviceRequestAllocationResult{{Request: "cpus", Device: "numa-0", ConsumedCapacity: capacity("1")}},
			Config:  []resourceapi.DeviceAllocationConfiguration{opaque(parameters)}}}}
		if _, err := p.read(); err == nil || len(err.Error()) > 1000 {
			t.Errorf("%.50s: the error has %d bytes", parameters, len(err.Error()))
		}
	}
}

func capacity(cpus string) map[resourceapi.QualifiedName]resource.Quantity {
	return map[resourceapi.QualifiedName]resource.Quantity{Capacity: resource.MustParse(cpus)}
}

func opaque(parameters string) resourceapi.DeviceAllocationConfiguration {
	return resourceapi.DeviceAllocationConfiguration{DeviceConfiguration: resourceapi.DeviceConfiguration{
		Opaque: &resourceapi.OpaqueDeviceConfiguration{Driver: Driver, Parameters: runtime.RawExtension{Raw: []byte(parameters)}}}}
}

// TestRandomRequests: of any claims, those that are accepted ask for at least one CPU of a device
// for a container of the pod. If each part has its CPUs, Divide returns as many of them, and none
// twice.
func TestRandomRequests(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPod(t)
		r, err := p.read()
		if err != nil {
			return
		}
		if len(r.Claims) != len(p.Claims) {
			t.Fatalf("%d claims are read as %v", len(p.Claims), r.Claims)
		}
		cpus, free := map[string]cpuset.Set{}, testDevices[0].CPUs.Union(testDevices[1].CPUs)
		for _, part := range r.Parts {
			if part.CPUs < 1 || part.Within.IsEmpty() {
				t.Fatalf("%+v", part)
			}
			var own cpuset.Set
			for cpu := range free.Intersection(part.Within).All() {
				if own.Len() < part.CPUs {
					own.Add(cpu)
				}
			}
			if own.Len() < part.CPUs {
				return // no agent could give them
			}
			cpus[part.Container], free = cpus[part.Container].Union(own), free.Difference(own)
		}
		var given api.Allocation
		for _, c := range slices.Concat(p.Init, p.Containers) {
			if own := cpus[cmp.Or(r.Shares[c.Name], c.Name)]; !own.IsEmpty() {
				given.Containers = append(given.Containers, api.ContainerAllocation{Name: c.Name, CPUs: own})
			}
		}
		var seen cpuset.Set
		for i, own := range r.Divide(given) {
			part := r.Parts[i]
			if own.Len() != part.CPUs || own.Intersects(seen) || !own.IsSubsetOf(part.Within) || !own.IsSubsetOf(cpus[part.Container]) {
				t.Fatalf("%+v has CPUs %s of %+v", part, own, given)
			}
			seen = seen.Union(own)
		}
	})
}

// drawPod draws a pod with up to two claims, some of which are not valid.
func drawPod(t *rapid.T) (p testPod) {
	or := func(value, flaw string) string {
		return rapid.SampledFrom(slices.Concat(slices.Repeat([]string{value}, 19), []string{flaw})).Draw(t, "flaw")
	}
	uses := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "a/one", "a/two", "b/one", "b/two"}), 1, 2)
	for i := range rapid.IntRange(0, 2).Draw(t, "init containers") {
		p.Init = append(p.Init, testContainer{Name: fmt.Sprint("init-", i), Uses: uses.Draw(t, "uses"), Sidecar: or("", "sidecar") != ""})
	}
	for i := range rapid.IntRange(1, 2).Draw(t, "containers") {
		p.Containers = append(p.Containers, testContainer{Name: fmt.Sprint("main-", i), Uses: uses.Draw(t, "uses")})
	}
	for _, name := range []string{"a", "b"} {
		claim := testClaim{Name: name}
		for range rapid.IntRange(1, 3).Draw(t, "results") {
			claim.Results = append(claim.Results, resourceapi.DeviceRequestAllocationResult{
				Request: rapid.SampledFrom([]string{"one", "two", "two/sub"}).Draw(t, "request"),
				Driver:  or("", "gpu.example.com"), Pool: or("", "n2"),
				Device:           or(rapid.SampledFrom([]string{"numa-0", "numa-1"}).Draw(t, "device"), "numa-2"),
				ConsumedCapacity: capacity(or(fmt.Sprint(rapid.IntRange(1, 2).Draw(t, "cpus")), "1500m")),
			})
		}
		if or("", "configured") != "" {
			claim.Config = append(claim.Config, opaque(rapid.String().Draw(t, "parameters")))
		}
		p.Claims = append(p.Claims, claim)
	}
	return p
}

// A pod may name its claims, and containers use them, in very many ways.
func TestManyNames(t *testing.T) {
	need.This(t, "the speed of this machine")
	busy.Linear(t, 500, func(n int) func() {
		p := testPod{Claims: []testClaim{{Name: "a", Results: []resourceapi.DeviceRequestAllocationResult{
			{Request: "one", Device: "numa-0", ConsumedCapacity: capacity("1")}}}}, Containers: []testContainer{{Name: "app"}}}
		pod, claims := p.objects()
		pod.Spec.ResourceClaims = nil
		for i := range n {
			name := fmt.Sprint("name-", i)
			of := corev1.PodResourceClaim{Name: name, ResourceClaimName: new("a")}
			if i%2 == 1 {
				of = corev1.PodResourceClaim{Name: name, ResourceClaimTemplateName: new("template")}
				pod.Status.ResourceClaimStatuses = append(pod.Status.ResourceClaimStatuses, corev1.PodResourceClaimStatus{Name: name, ResourceClaimName: &name})
			}
			pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, of)
			pod.Spec.Containers[0].Resources.Claims = append(pod.Spec.Containers[0].Resources.Claims, corev1.ResourceClaim{Name: name})
		}
		return func() {
			if r, err := Read(pod, claims, testNode, testDevices); err != nil || r.Parts[0].Container != "app" || len(ClaimNames(pod)) != n {
				t.Fatal(r, err)
			}
		}
	})
}
