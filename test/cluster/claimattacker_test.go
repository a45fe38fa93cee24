package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"k8s.io/client-go/util/retry"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1"
	registrationapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/agent"
	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/dra"
	"pinfold.dev/pinfold/lab/localcluster"
	"pinfold.dev/pinfold/test/history"
	"pinfold.dev/pinfold/test/logtext"
)

// claimAttacker is a tenant of a node that serves claims, with a pod of others there. The kubelet is
// the test.
type claimAttacker struct {
	*attacker
	node     *allocator
	agent    agent.Options
	driver   drapb.DRAPluginClient
	requests atomic.Int64                 // of the agent, about claims
	prepared map[types.UID][]*drapb.Claim // what the kubelet has asked for, by pod
	own      map[types.UID]cpuset.Set     // of pods of others
	log      logtext.Log
}

func newClaimAttacker(h *recorded) *claimAttacker {
	h.Helper()
	const node = "claims-hostile"
	a := &claimAttacker{attacker: &attacker{test: h.test, tenant: h.driver.Tenant, namespace: history.Unguarded},
		prepared: map[types.UID][]*drapb.Claim{}, own: map[types.UID]cpuset.Set{}}
	a.node = &allocator{test: h.test, fixture: newFixture(h.T), node: node, running: map[types.UID]*corev1.Pod{}}
	h.createReadyNode(node)
	kubelet, err := os.MkdirTemp("", "dra") // short, because of its sockets
	a.must(err)
	a.Cleanup(func() { a.must(os.RemoveAll(kubelet)) })
	a.must(os.Mkdir(filepath.Join(kubelet, "plugins_registry"), 0o750))
	config := rest.CopyConfig(a.config)
	config.Wrap(transport.WrapperFunc(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			if strings.Contains(r.URL.Path, "/resourceclaims") {
				a.requests.Add(1)
			}
			return next.RoundTrip(r)
		})
	}))
	own := a.as(config)
	a.agent = agent.Options{Config: control.Config{NodeName: node, Allocates: true, MinShared: api.DefaultMinSharedCPUs},
		Root: a.node.root, RunDir: a.TempDir(), Client: own.client, Topologies: own.topologies,
		Devices: dra.ByNUMA, KubeletDir: kubelet, CDIDir: filepath.Join(kubelet, "cdi"),
		Kubelet: noPolicy, Period: 200 * time.Millisecond, APIEvery: time.Second, RetryAfter: 100 * time.Millisecond, Log: slog.New(slog.NewTextHandler(&a.log, nil))}
	a.Cleanup(func() {
		ctx, all := context.Background(), metav1.ListOptions{}
		a.must(a.client.ResourceV1().ResourceSlices().DeleteCollection(ctx, metav1.DeleteOptions{}, all))
		a.must(a.client.ResourceV1().ResourceClaims("default").DeleteCollection(ctx, metav1.DeleteOptions{}, all))
	})
	a.runAgent(a.agent)
	a.Cleanup(func() {
		if h.Failed() {
			h.Logf("the agent:\n%s", a.log.String())
		}
	})
	a.register()
	a.permit()
	a.startScheduler(fmt.Sprintf(stockScheduler, filepath.Join(a.dir, "config", localcluster.Scheduler+".kubeconfig"), ownName))
	return a
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// register does what a kubelet does with the socket of a driver.
func (a *claimAttacker) register() {
	a.Helper()
	dial := func(socket string) *grpc.ClientConn {
		connection, err := grpc.NewClient("passthrough:///"+filepath.Join(a.agent.KubeletDir, socket), grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, path string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "unix", path)
			}))
		a.must(err)
		a.Cleanup(func() { _ = connection.Close() })
		return connection
	}
	registration := filepath.Join("plugins_registry", dra.Driver+"-reg.sock")
	a.eventually(func() string {
		_, err := os.Stat(filepath.Join(a.agent.KubeletDir, registration))
		return text(err)
	})
	_, err := registrationapi.NewRegistrationClient(dial(registration)).NotifyRegistrationStatus(a.Context(), &registrationapi.RegistrationStatus{PluginRegistered: true})
	a.must(err)
	a.driver = drapb.NewDRAPluginClient(dial(filepath.Join("plugins", dra.Driver, "dra.sock")))
}

// permit creates the device classes, and lets the tenant write the status of claims, as
// a careless administrator may.
func (a *claimAttacker) permit() {
	a.Helper()
	a.createDeviceClasses()
	ctx := a.Context()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "careless"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{resourceapi.GroupName}, Verbs: []string{"update"}, Resources: []string{"resourceclaims/status", "resourceclaims/binding"}},
		{APIGroups: []string{resourceapi.GroupName}, Verbs: []string{"arbitrary-node:update"}, Resources: []string{"resourceclaims/driver"}}}}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: role.ObjectMeta,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: history.TenantUser}}}
	roles, bindings := a.client.RbacV1().ClusterRoles(), a.client.RbacV1().ClusterRoleBindings()
	_, err := roles.Create(ctx, role, metav1.CreateOptions{})
	a.must(err)
	_, err = bindings.Create(ctx, binding, metav1.CreateOptions{})
	a.must(err)
	a.Cleanup(func() {
		a.must(bindings.Delete(context.Background(), role.Name, metav1.DeleteOptions{}))
		a.must(roles.Delete(context.Background(), role.Name, metav1.DeleteOptions{}))
	})
	a.claim("effective", claimSpec(twoRequests))
	a.eventually(func() string { return text(a.forge("effective", []string{""}, nil)) })
}

// asks is a container that requests CPUs and uses claims, as CLAIM or CLAIM/REQUEST.
type asks struct {
	name, cpu string
	uses      []string
}

// app is the container of a pod that uses claim a.
func app(cpu string) []asks { return []asks{{"app", cpu, []string{"a"}}} }

// pod returns a pod with claims. Containers whose name begins with init are init containers.
func (a *claimAttacker) pod(name string, containers ...asks) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{NodeName: a.node.node, TerminationGracePeriodSeconds: new(int64),
		Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}}}
	claims := map[string]bool{}
	for _, ask := range containers {
		cpus := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(ask.cpu)}
		c := corev1.Container{Name: ask.name, Image: "image", Resources: corev1.ResourceRequirements{Requests: cpus, Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8")}}}
		for _, use := range ask.uses {
			claim, request, _ := strings.Cut(use, "/")
			c.Resources.Claims, claims[claim] = append(c.Resources.Claims, corev1.ResourceClaim{Name: claim, Request: request}), true
		}
		if strings.HasPrefix(ask.name, "init") {
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
		} else {
			pod.Spec.Containers = append(pod.Spec.Containers, c)
		}
	}
	for _, claim := range slices.Sorted(maps.Keys(claims)) {
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: claim, ResourceClaimName: new(claim)})
	}
	return pod
}

// schedule creates a pod with a claim, and waits until the scheduler has placed it.
func (a *claimAttacker) schedule(client kubernetes.Interface, namespace, name, requests string, cpus int) *corev1.Pod {
	a.Helper()
	_, err := client.ResourceV1().ResourceClaims(namespace).Create(a.Context(), &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: claimSpec(requests)}, metav1.CreateOptions{})
	a.must(err)
	pod := a.pod(name, asks{"app", fmt.Sprint(cpus), []string{name}})
	pod.Spec.NodeName, pod.Spec.NodeSelector, pod.Spec.SchedulerName = "", map[string]string{corev1.LabelHostname: a.node.node}, ownName
	_, err = client.CoreV1().Pods(namespace).Create(a.Context(), pod, metav1.CreateOptions{})
	a.must(err)
	return a.boundIn(namespace, name)
}

// honest runs a pod of somebody else that claims 2 CPUs.
func (a *claimAttacker) honest(name string) {
	a.Helper()
	a.gives(a.schedule(a.client, "default", name, twoCPUs, 2))
}

const twoCPUs = `requests: [{name: cpus, exactly: {deviceClassName: cpu.pinfold.dev, capacity: {requests: {cpu: 2}}}}]`

// gives prepares a pod of somebody else, which gets 2 CPUs.
func (a *claimAttacker) gives(pod *corev1.Pod) {
	a.Helper()
	a.must(a.prepare(pod))
	own := a.given()[pod.UID]
	if a.own[pod.UID] = own; own.Len() != 2 {
		a.Errorf("pod %s has CPUs %q", pod.Name, own)
	}
	a.check()
}

// end ends a pod of somebody else.
func (a *claimAttacker) end(name string) {
	a.Helper()
	pod, err := a.client.CoreV1().Pods("default").Get(a.Context(), name, metav1.GetOptions{})
	a.must(err)
	delete(a.own, pod.UID)
	a.must(a.client.CoreV1().Pods("default").Delete(a.Context(), name, *metav1.NewDeleteOptions(0)))
	a.unprepare(pod.UID)
	a.must(a.client.ResourceV1().ResourceClaims("default").Delete(a.Context(), name, metav1.DeleteOptions{}))
	a.check()
}

// prepare admits a pod and asks the driver to prepare its claims, as a kubelet does. It does not
// check who may use them, because that may change before the driver reads them.
func (a *claimAttacker) prepare(pod *corev1.Pod) error {
	a.Helper()
	a.must(a.node.kubelet(a.Context()))
	if _, runs := a.node.running[pod.UID]; !runs {
		a.Fatalf("the kubelet does not admit pod %s", pod.Name)
	}
	var refs []*drapb.Claim
	for _, name := range dra.ClaimNames(pod) {
		claim, err := a.client.ResourceV1().ResourceClaims(pod.Namespace).Get(a.Context(), name, metav1.GetOptions{})
		a.must(err)
		refs = append(refs, &drapb.Claim{Namespace: pod.Namespace, Name: name, Uid: string(claim.UID)})
	}
	return a.ask(pod.UID, refs...)
}

// ask asks the driver to prepare claims for a pod.
func (a *claimAttacker) ask(pod types.UID, refs ...*drapb.Claim) error {
	a.Helper()
	ctx, cancel := context.WithTimeout(a.Context(), 2*time.Second) // a kubelet waits longer
	defer cancel()
	a.prepared[pod] = append(a.prepared[pod], refs...)
	answer, err := a.driver.NodePrepareResources(ctx, &drapb.NodePrepareResourcesRequest{Claims: refs})
	if err != nil {
		return err
	}
	for _, ref := range refs {
		if text := answer.Claims[ref.Uid].GetError(); text != "" {
			return errors.New(text)
		}
	}
	return nil
}

// unprepare tells the driver that a pod has ended.
func (a *claimAttacker) unprepare(pod types.UID) {
	a.Helper()
	answer, err := a.driver.NodeUnprepareResources(a.Context(), &drapb.NodeUnprepareResourcesRequest{Claims: a.prepared[pod]})
	a.must(err)
	for uid, one := range answer.Claims {
		if one.Error != "" {
			a.Errorf("the end of claim %s: %s", uid, one.Error)
		}
	}
	delete(a.prepared, pod)
}

// given returns the CPUs that pods have by what the agent has saved.
func (a *claimAttacker) given() map[types.UID]cpuset.Set {
	a.Helper()
	saved, all := map[types.UID]api.Allocation{}, map[types.UID]cpuset.Set{}
	content, err := os.ReadFile(filepath.Join(a.agent.RunDir, "allocations.json"))
	a.must(err)
	a.must(json.Unmarshal(content, &saved))
	for uid, given := range saved {
		all[uid] = given.CPUs()
	}
	return all
}

// check checks that others have their CPUs, and pods of the tenant no more than they request.
func (a *claimAttacker) check() {
	a.Helper()
	given := a.given()
	var all cpuset.Set
	for uid, cpus := range given {
		pod := a.node.running[uid]
		if own, ok := a.own[uid]; ok && cpus != own {
			a.Errorf("a pod of others had CPUs %q and has %q", own, cpus)
		} else if pod != nil && requestOf(pod) < int64(cpus.Len())*1000 {
			a.Errorf("pod %s has CPUs %q and requests %d thousandths", pod.Name, cpus, requestOf(pod))
		}
		if cpus.Intersects(all) {
			a.Errorf("two pods have CPUs %q", cpus.Intersection(all))
		}
		all = all.Union(cpus)
	}
	for uid, own := range a.own {
		if given[uid] != own {
			a.Errorf("a pod of others had CPUs %q and has %q", own, given[uid])
		}
	}
}

// leave ends all pods and claims of the tenant, and checks that nothing is left of them.
func (a *claimAttacker) leave() {
	a.Helper()
	a.check()
	a.eventually(func() string {
		a.must(a.node.kubelet(a.Context()))
		return text(a.node.agrees())
	})
	a.clean()
	a.must(a.node.kubelet(a.Context()))
	for pod := range a.prepared {
		if _, ok := a.own[pod]; !ok {
			a.unprepare(pod)
		}
	}
	a.must(a.client.ResourceV1().ResourceClaims(a.namespace).DeleteCollection(a.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	a.check()
	if given := a.given(); len(given) != len(a.own) {
		a.Errorf("after the end of all pods of the tenant %v have CPUs, want those of %v", given, a.own)
	}
	specs, err := os.ReadDir(a.agent.CDIDir)
	a.must(err)
	files, err := os.ReadDir(filepath.Join(a.agent.RunDir, "claims"))
	a.must(err)
	if len(specs) != len(a.own) || len(files) != len(a.own) {
		a.Errorf("left are %v and %v", specs, files)
	}
}

// result is a forged device of a claim: what differs from one CPU for the request cpus.
func (a *claimAttacker) result(text string, i int) (r resourceapi.DeviceRequestAllocationResult) {
	a.Helper()
	share := types.UID(fmt.Sprintf("3ac2a8f7-52dd-4c4c-9e49-%012d", i))
	r = resourceapi.DeviceRequestAllocationResult{Request: "cpus", Driver: dra.Driver, Pool: a.node.node, Device: "numa-0", ShareID: &share,
		ConsumedCapacity: map[resourceapi.QualifiedName]resource.Quantity{dra.Capacity: resource.MustParse("1")}}
	a.must(yaml.UnmarshalStrict([]byte(text), &r))
	return r
}

// forge writes the status of a claim in place of a scheduler: its devices, the parameters of the
// driver, and the pods that use it.
func (a *claimAttacker) forge(name string, results, parameters []string, users ...*corev1.Pod) error {
	a.Helper()
	devices := resourceapi.DeviceAllocationResult{}
	for i, text := range results {
		devices.Results = append(devices.Results, a.result(text, i))
	}
	for _, text := range parameters {
		devices.Config = append(devices.Config, resourceapi.DeviceAllocationConfiguration{Source: resourceapi.AllocationConfigSourceClass,
			DeviceConfiguration: resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{Driver: dra.Driver, Parameters: apiruntime.RawExtension{Raw: []byte(text)}}}})
	}
	status := resourceapi.ResourceClaimStatus{Allocation: &resourceapi.AllocationResult{Devices: devices}}
	for _, pod := range users {
		status.ReservedFor = append(status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: pod.Name, UID: pod.UID})
	}
	return errors.Join(a.writeStatus(name, resourceapi.ResourceClaimStatus{}), a.writeStatus(name, status)) // an allocation cannot change
}

func (a *claimAttacker) writeStatus(name string, status resourceapi.ResourceClaimStatus) error {
	a.Helper()
	claims := a.tenant.ResourceV1().ResourceClaims(a.namespace)
	return retry.RetryOnConflict(retry.DefaultRetry, func() error { // controllers write it, too
		claim, err := claims.Get(a.Context(), name, metav1.GetOptions{})
		if err == nil {
			claim.Status = status
			_, err = claims.UpdateStatus(a.Context(), claim, metav1.UpdateOptions{})
		}
		return err
	})
}
