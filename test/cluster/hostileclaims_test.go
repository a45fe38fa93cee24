package cluster

import (
	"context"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1"
	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/kube/api"
)

// TestHostileTenantOfClaims: on a node that serves resource claims, a tenant who may even write
// their status gets no more CPUs than its pods request, and takes none from others. Its pods are
// told what is wrong. When they are gone, nothing of them is left.
func TestHostileTenantOfClaims(t *testing.T) {
	h := record(t, 1)
	h.must(h.driver.Run(t.Context(), 0)) // creates the namespaces
	a := newClaimAttacker(h)
	a.honest("first")
	all := map[string]func(*claimAttacker){
		"forged status":             (*claimAttacker).forgeAll,
		"names that lead elsewhere": (*claimAttacker).oddNames,
		"claims of others":          (*claimAttacker).claimsOfOthers,
		"references that differ":    (*claimAttacker).differentReferences,
		"allocations that change":   (*claimAttacker).changeAllocation,
		"a claim that comes again":  (*claimAttacker).recreate,
		"shared claims":             (*claimAttacker).share,
		"what schedulers allocate":  (*claimAttacker).allocated,
		"many claims":               (*claimAttacker).manyClaims,
	}
	for i, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) {
			before := a.test
			a.test = &test{t, a.running}
			defer func() { a.test = before }()
			all[name](a)
			a.leave()
			late := fmt.Sprint("late-", i)
			a.honest(late) // the attack has not used up what others request
			a.end(late)
		})
	}
}

// twoRequests is a claim with several requests.
const twoRequests = `requests: [{name: cpus, exactly: {deviceClassName: cpu.pinfold.dev}}, {name: more, exactly: {deviceClassName: cpu.pinfold.dev}}]`

// parameters are those of the driver with something else.
func parameters(more string) string {
	return `{"apiVersion":"cpu.pinfold.dev/v1alpha1","kind":"Parameters"` + more + `}`
}

// forgeries are what a tenant writes to the status of claim a, which a pod uses.
func forgeries() []forgery {
	one, long := []string{""}, strings.Repeat("x", 9<<10)
	return []forgery{
		{"a device of another node", app("1"), []string{`pool: small`}, nil, "it has a device of node small", 0},
		{"a pool like a path", app("1"), []string{`pool: claims-hostile/x`}, nil, "it has a device of node claims-hostile/x", 0},
		{"no such device", app("1"), []string{`device: numa-7`}, nil, "has no device numa-7", 0},
		{"more than the device has", app("5"), []string{`consumedCapacity: {cpu: 64}`}, nil, "and device numa-0 has 8", 0},
		{"more than any", app("5"), []string{`consumedCapacity: {cpu: 9E}`}, nil, "request a whole number", 0},
		{"less than none", app("5"), []string{`consumedCapacity: {cpu: -1}`}, nil, "request a whole number", 0},
		{"more than the pod requests", app("1"), []string{`consumedCapacity: {cpu: 4}`}, nil, "set its resources.requests.cpu to 4", 0},
		{"more than the pod requests in parts", app("3"), []string{`consumedCapacity: {cpu: 2}`, `consumedCapacity: {cpu: 2}`}, nil, "set its resources.requests.cpu to 4", 0},
		{"more than the claim", app("3"), []string{`consumedCapacity: {cpu: 3}`}, nil, "", 3},
		{"a device twice", app("2"), []string{``, `shareID: 3ac2a8f7-52dd-4c4c-9e49-000000000000`}, nil, "lists device numa-0 twice", 0},
		{"no share", app("1"), []string{`shareID: null`}, nil, "", 1},
		{"a driver with a similar name", app("2"), []string{``, `driver: x.cpu.pinfold.dev`}, nil, "", 1},
		{"32 devices", app("4"), slices.Repeat(one, 32), nil, "set its resources.requests.cpu to 32", 0},
		{"an init container beside a main container", []asks{{"init", "3", []string{"a/cpus"}}, {"app", "3", []string{"a/more"}}},
			[]string{`consumedCapacity: {cpu: 3}`, `{request: more, consumedCapacity: {cpu: 3}}`}, nil, "init containers claim", 0},
		{"init containers one after the other", []asks{{"init", "2", []string{"a/cpus"}}, {"init2", "2", []string{"a/more"}}, {"app", "1", nil}},
			[]string{`consumedCapacity: {cpu: 2}`, `{request: more, consumedCapacity: {cpu: 2}}`}, nil, "init containers claim", 0},
		{"an init container that requests less", []asks{{"init", "1", []string{"a/cpus"}}, {"app", "3", []string{"a/cpus"}}},
			[]string{`consumedCapacity: {cpu: 3}`}, nil, "container init requests", 0},
		{"two containers", []asks{{"app", "1", []string{"a"}}, {"app2", "1", []string{"a/cpus"}}}, one, nil, "containers app and app2 both use it", 0},
		{"long parameters", app("1"), one, slices.Repeat([]string{parameters(`,"` + long + `":1`)}, 32), "unknown field", 0},
		{"long values", app("1"), one, []string{parameters(`,"fullCores":"` + long + `"`)}, `fullCores is "xxx`, 0},
		{"deep parameters", app("1"), one, []string{parameters(`,"x":` + strings.Repeat("[", 4000) + strings.Repeat("]", 4000))}, "unknown field", 0},
		{"a key twice", app("1"), one, []string{parameters(`,"fullCores":"required","fullCores":"preferred"`)}, "duplicate field", 0},
		{"a key in capitals", app("1"), one, []string{parameters(`,"FULLCORES":"required"`)}, "unknown field", 0},
		{"another version", app("1"), one, []string{`{"apiVersion":"cpu.pinfold.dev/v9","kind":"Parameters"}`}, "this driver reads kind", 0},
		{"no parameters", app("1"), one, []string{`{}`}, "this driver reads kind", 0},
	}
}

type forgery struct {
	name                string
	containers          []asks
	results, parameters []string
	want                string // what the pod is told, or it gets this many
	cpus                int
}

func (a *claimAttacker) forgeAll() {
	for _, f := range forgeries() {
		a.claim("a", claimSpec(twoRequests))
		pod := a.start(a.pod("forged", f.containers...))
		a.must(a.forge("a", f.results, f.parameters, pod))
		a.expect(f.name, pod, a.prepare(pod), f.want, f.cpus)
		a.leave()
	}
}

// expect checks what a pod of the tenant is told, or how many CPUs it gets.
func (a *claimAttacker) expect(what string, pod *corev1.Pod, err error, want string, cpus int) {
	a.Helper()
	got := a.given()[pod.UID]
	switch {
	case want == "" && (err != nil || got.Len() != cpus):
		a.Errorf("%s: the pod gets CPUs %q and not %d: %v", what, got, cpus, err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 1000 || !got.IsEmpty()):
		a.Errorf("%s: the pod gets CPUs %q, and is told %.1200v, and not %s", what, got, err, want)
	}
	a.check()
}

// oddNames writes names that would lead to files of others. The API server refuses them.
func (a *claimAttacker) oddNames() {
	a.claim("a", claimSpec(twoRequests))
	for _, text := range []string{`pool: ../../etc`, `device: ../numa-0`, `device: "numa-0\n"`, `request: ../../x`, `shareID: ../../x`, `driver: ../x`, `request: cpus/../x`} {
		if err := a.forge("a", []string{text}, nil); !apierrors.IsInvalid(err) {
			a.Errorf("%s: %v", text, err)
		}
	}
}

// claimsOfOthers reserves claims of the tenant for pods of others, which have claims of these names,
// once the kubelet has seen that they are for the tenant's pod.
func (a *claimAttacker) claimsOfOthers() {
	next := a.schedule(a.client, "default", "next", twoCPUs, 2) // its claim is not prepared yet
	for _, name := range []string{"first", "next"} {
		victim, err := a.client.CoreV1().Pods("default").Get(a.Context(), name, metav1.GetOptions{})
		a.must(err)
		claim := a.claim(name, claimSpec(twoRequests))
		pod := a.start(a.pod(name, asks{"app", "1", []string{name}}))
		a.must(a.node.kubelet(a.Context()))
		a.eventually(func() string {
			a.must(a.forge(name, []string{`consumedCapacity: {cpu: 2}`}, nil, victim))
			err := a.ask(pod.UID, &drapb.Claim{Namespace: a.namespace, Name: name, Uid: string(claim.UID)})
			if err == nil || a.given()[victim.UID] != a.own[victim.UID] {
				a.Errorf("a pod of others had CPUs %q and has %q: %v", a.own[victim.UID], a.given()[victim.UID], err)
			} else if !strings.Contains(err.Error(), "it is in namespace") { // a controller was faster: it reserves the claim for the tenant's pod
				return err.Error()
			}
			return ""
		})
	}
	a.gives(next)
	a.leave()
	a.end("next")
}

// differentReferences asks for claims whose namespace, name and UID differ, as a kubelet does for
// one that was created again.
func (a *claimAttacker) differentReferences() {
	claim := a.claim("first", claimSpec(twoRequests))
	pod := a.start(a.pod("differs", app("1")...))
	a.must(a.node.kubelet(a.Context()))
	a.must(a.forge("first", []string{""}, nil, pod))
	for _, ref := range []*drapb.Claim{
		{Namespace: "default", Name: "first", Uid: string(claim.UID)},
		{Namespace: a.namespace, Name: "first", Uid: "../.."},
		{Namespace: a.namespace, Name: "first"},
		{Namespace: a.namespace, Name: "other", Uid: string(claim.UID)},
	} {
		a.expect(ref.String(), pod, a.ask("", ref), "get resource claims", 0)
	}
	delete(a.prepared, "") // a kubelet ends only what it knows
	var many []*corev1.Pod
	for i := range 256 {
		many = append(many, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "user", UID: types.UID(fmt.Sprint("user-", i))}})
	}
	a.eventually(func() string { // a controller removes users that do not exist
		a.must(a.forge("first", []string{""}, nil, many...))
		err := a.ask(pod.UID, &drapb.Claim{Namespace: a.namespace, Name: "first", Uid: string(claim.UID)})
		if err != nil && !strings.Contains(err.Error(), "pods or others use it") {
			return err.Error()
		}
		a.expect("256 users", pod, err, "pods or others use it", 0)
		return ""
	})
}

// changeAllocation changes what is allocated to a claim that is prepared.
func (a *claimAttacker) changeAllocation() {
	a.claim("a", claimSpec(twoRequests))
	pod := a.start(a.pod("changes", asks{"app", "5", []string{"a"}}))
	a.must(a.forge("a", []string{`consumedCapacity: {cpu: 2}`}, nil, pod))
	a.expect("at first", pod, a.prepare(pod), "", 2)
	own := a.given()[pod.UID]
	for _, results := range [][]string{{`consumedCapacity: {cpu: 5}`}, {`device: numa-7`}, {`request: more`}, {"", ""}} {
		a.must(a.forge("a", results, nil, pod))
		_ = a.prepare(pod)
		if now := a.given()[pod.UID]; now != own {
			a.Errorf("%s: the pod had CPUs %q and has %q", results, own, now)
		}
		a.check()
	}
	a.must(a.forge("a", []string{`consumedCapacity: {cpu: 2}`}, nil, pod))
	a.must(a.prepare(pod))
	status := func(change func(*resourceapi.AllocatedDeviceStatus)) string {
		claim, err := a.tenant.ResourceV1().ResourceClaims(a.namespace).Get(a.Context(), "a", metav1.GetOptions{})
		a.must(err)
		if len(claim.Status.Devices) != 1 {
			a.Fatalf("the claim has the status %+v", claim.Status)
		}
		change(&claim.Status.Devices[0])
		a.must(a.writeStatus("a", claim.Status))
		return string(claim.Status.Devices[0].Data.Raw)
	}
	status(func(d *resourceapi.AllocatedDeviceStatus) { d.Data.Raw = []byte(`{"container":"app","cpus":"0-7"}`) })
	a.expect("a status with other CPUs", pod, a.prepare(pod), "", 2)
	if got := status(func(*resourceapi.AllocatedDeviceStatus) {}); got != fmt.Sprintf(`{"container":"app","cpus":%q}`, own) {
		a.Errorf("the pod has CPUs %q, and the claim says %s", own, got)
	}
}

// recreate deletes the claim of a pod, and creates another one of that name for another pod.
func (a *claimAttacker) recreate() {
	one := a.start(a.pod("one", app("1")...))
	for i := range 2 {
		a.claim("a", claimSpec(twoRequests))
		a.must(a.forge("a", []string{""}, nil, one))
		if i == 0 {
			a.expect("the first claim", one, a.prepare(one), "", 1)
			a.must(a.tenant.ResourceV1().ResourceClaims(a.namespace).Delete(a.Context(), "a", metav1.DeleteOptions{}))
		}
	}
	own := a.given()[one.UID]
	if err := a.prepare(one); err == nil || !strings.Contains(err.Error(), "the pod has CPUs for other claims") || a.given()[one.UID] != own {
		a.Errorf("the pod had CPUs %q, and has %q: %v", own, a.given()[one.UID], err)
	}
	two := a.start(a.pod("two", app("1")...))
	a.must(a.forge("a", []string{""}, nil, two))
	a.expect("the second claim", two, a.prepare(two), "belong", 0) // or a controller reserves it for both
	a.must(a.tenant.CoreV1().Pods(a.namespace).Delete(a.Context(), "one", *metav1.NewDeleteOptions(0)))
	a.unprepare(one.UID)
	a.must(a.forge("a", []string{""}, nil, two))
	a.expect("the second claim alone", two, a.prepare(two), "", 1)
}

// share uses a claim several times.
func (a *claimAttacker) share() {
	a.claim("a", claimSpec(twoRequests))
	one, two := a.start(a.pod("one", app("1")...)), a.start(a.pod("two", app("1")...))
	a.must(a.forge("a", []string{""}, nil, one, two))
	a.expect("two pods", one, a.prepare(one), "2 pods or others use it", 0)
	a.leave()
	for what, change := range map[string]struct {
		edit func(*corev1.Pod)
		want string
	}{
		"a claim twice": {func(p *corev1.Pod) {
			p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, corev1.PodResourceClaim{Name: "b", ResourceClaimName: new("a")})
			p.Spec.Containers[0].Resources.Claims = append(p.Spec.Containers[0].Resources.Claims, corev1.ResourceClaim{Name: "b"})
		}, ""},
		"an init container, too": {func(p *corev1.Pod) {
			p.Spec.InitContainers = slices.Clone(p.Spec.Containers)
			p.Spec.InitContainers[0].Name = "init"
		}, ""},
		"requests of the pod": {func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{Requests: p.Spec.Containers[0].Resources.Requests}
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m")}
		}, "container app requests 0.001 CPUs"},
		"an annotation, too": {func(p *corev1.Pod) { p.Annotations = map[string]string{api.CPUSetSchedulerAnnotation: "true"} }, "by annotation"},
	} {
		a.claim("a", claimSpec(twoRequests))
		pod := a.pod("shares", app("2")...)
		change.edit(pod)
		pod = a.start(pod)
		a.must(a.forge("a", []string{`consumedCapacity: {cpu: 2}`}, nil, pod))
		a.expect(what, pod, a.prepare(pod), change.want, 2)
		a.leave()
	}
}

// allocated lets the scheduler allocate unusual claims.
func (a *claimAttacker) allocated() {
	for i, c := range []struct {
		requests string
		want     string
		cpus     int
	}{
		{`requests: [{name: cpus, firstAvailable: [{name: many, deviceClassName: cpu.pinfold.dev, capacity: {requests: {cpu: 64}}}, {name: few, deviceClassName: cpu.pinfold.dev}]}]`, "", 1},
		{`requests: [{name: cpus, exactly: {deviceClassName: cpu.pinfold.dev, allocationMode: All, tolerations: [{operator: Exists}]}}]`, "", 1},
		{`requests: [{name: cpus, exactly: {deviceClassName: cpu.pinfold.dev, adminAccess: true}}]`, "remove adminAccess", 0},
	} {
		if c.want != "" { // of an administrator's namespace
			a.eventually(func() string {
				_, err := a.client.CoreV1().Namespaces().Patch(a.Context(), a.namespace, types.MergePatchType, []byte(`{"metadata":{"labels":{"`+resourceapi.DRAAdminNamespaceLabelKey+`":"true"}}}`), metav1.PatchOptions{})
				return text(err)
			})
		}
		pod := a.schedule(a.tenant, a.namespace, fmt.Sprint("allocated-", i), c.requests, max(1, c.cpus))
		a.expect(c.requests, pod, a.prepare(pod), c.want, c.cpus)
		a.leave()
	}
}

// manyClaims creates many claims, some of which are forged for this node.
func (a *claimAttacker) manyClaims() {
	const many = 500
	alone := a.cost("alone")
	requests := a.requests.Load()
	var work errgroup.Group
	work.SetLimit(16)
	for i := range many {
		work.Go(func() error {
			_, err := a.tenant.ResourceV1().ResourceClaims(a.namespace).Create(a.Context(), &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("many-", i)}, Spec: claimSpec(twoRequests)}, metav1.CreateOptions{})
			if err == nil && i%20 == 0 {
				err = a.forge(fmt.Sprint("many-", i), []string{`device: numa-7`}, nil)
			}
			return err
		})
	}
	a.must(work.Wait())
	if now := a.requests.Load(); now != requests {
		a.Errorf("the agent has asked %d times for claims that are not prepared", now-requests)
	}
	if beside := a.cost("beside"); beside != alone {
		a.Errorf("a preparation costs %d requests, and %d beside %d claims", alone, beside, many)
	}
}

// cost returns how many requests about claims the agent sends for a pod of somebody else.
func (a *claimAttacker) cost(name string) int64 {
	a.Helper()
	before, begun := a.requests.Load(), time.Now()
	a.honest(name)
	took := time.Since(begun)
	a.end(name)
	var memory runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&memory)
	a.Logf("%s: %v, heap %d MiB", name, took, memory.HeapAlloc>>20)
	return a.requests.Load() - before
}

// claim creates a claim of the tenant.
func (a *claimAttacker) claim(name string, spec resourceapi.ResourceClaimSpec) *resourceapi.ResourceClaim {
	a.Helper()
	claim, err := a.tenant.ResourceV1().ResourceClaims(a.namespace).Create(a.Context(), &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{})
	a.must(err)
	return claim
}

// start creates a pod of the tenant.
func (a *claimAttacker) start(pod *corev1.Pod) *corev1.Pod {
	a.Helper()
	pod, err := a.tenant.CoreV1().Pods(a.namespace).Create(a.Context(), pod, metav1.CreateOptions{})
	a.must(err)
	return pod
}

// claimSpec returns a claim with these requests, in short form.
func claimSpec(requests string) (spec resourceapi.ResourceClaimSpec) {
	if err := yaml.UnmarshalStrict([]byte(requests), &spec.Devices); err != nil {
		panic(err) // a mistake in this file
	}
	return spec
}

// createDeviceClasses creates those of the chart until the test ends.
func (c *test) createDeviceClasses() {
	c.Helper()
	text, err := os.ReadFile("../../deploy/chart/templates/deviceclasses.yaml")
	c.must(err)
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var plain []string
		for line := range strings.Lines(document) {
			if !strings.Contains(line, "{{") && !strings.Contains(line, "labels:") {
				plain = append(plain, line)
			}
		}
		class := &resourceapi.DeviceClass{}
		c.must(yaml.UnmarshalStrict([]byte(strings.Join(plain, "")), class))
		_, err := c.client.ResourceV1().DeviceClasses().Create(c.Context(), class, metav1.CreateOptions{})
		c.must(err)
		c.Cleanup(func() {
			c.must(c.client.ResourceV1().DeviceClasses().Delete(context.Background(), class.Name, metav1.DeleteOptions{}))
		})
	}
}
