package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/agent/claims"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/internal/logdedup"
	"pinfold.dev/pinfold/kube/admission"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/dra"
	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/kube/versions"
	"pinfold.dev/pinfold/local/localcluster"
	"pinfold.dev/pinfold/test/logtext"
	"pinfold.dev/pinfold/test/must"
)

// The feature gates that claims for CPUs need (the first) or can use.
const (
	consumable = "DRAConsumableCapacity"
	lists      = "DRAListTypeAttributes"
	requests   = "DRANodeAllocatableResources"
)

// claimGates returns the feature gates for claims that a version has and that are off by default.
func claimGates(version string) []string {
	if version == "1.34" || version == "1.35" {
		return []string{consumable}
	}
	return []string{lists, requests}
}

// TestClaims checks claims for CPUs with the default feature gates of the newest version.
// [TestVersions] does so for the others, with gates.
func TestClaims(t *testing.T) { testClaims(t) }

// testClaims publishes the devices of a node as its agent does. The stock scheduler allocates them
// to pods that claim CPUs, and no more than they have. A pod that claims a GPU of the second NUMA
// node, too, gets CPUs there. What the cluster lacks is left out, or the driver says what is missing.
func testClaims(t *testing.T, gates ...string) {
	c := &claimTest{test: begin(t), gates: map[string]bool{}}
	c.gates[consumable] = claimGates(c.kubernetes())[0] != consumable
	flag := "--feature-gates="
	for _, gate := range gates {
		c.gates[gate] = true
		flag += gate + "=true,"
	}
	if c.gates[requests] = c.gates[requests] && c.kubernetes() == versions.Newest().String(); c.gates[requests] {
		c.declare() // on older versions the kubelet lacks the gate
	}
	c.startScheduler(fmt.Sprintf(stockScheduler, filepath.Join(c.dir, "config", localcluster.Scheduler+".kubeconfig"), ownName), flag)
	c.publish()
	c.createClaimObjects()
	first, err := c.claim("first", "forty", 40)
	if !c.gates[consumable] {
		c.logs("resource claims need a feature gate that the cluster lacks: set it for API server and scheduler", consumable)
		if err == nil || !strings.Contains(err.Error(), "the cluster needs the feature gate "+consumable) {
			t.Errorf("a claim without %s is read as %+v, %v", consumable, first, err)
		}
		return
	}
	c.must(err)
	second, err := c.claim("second", "forty", 40)
	c.must(err)
	if first.Result.Device == second.Result.Device {
		t.Errorf("two pods have 40 CPUs each of %+v and %+v", first, second)
	}
	c.create(c.claiming("third", "thirteen", 13))
	c.waits("third", "cannot allocate all claims")
	beside, err := c.claim("beside", "gpu", 12)
	if c.must(err); beside.Result.Device != "numa-1" {
		t.Errorf("the GPU is in NUMA node 1, and the CPUs are %+v", beside)
	}
	c.checkPublished()
	c.givesBack()
}

// claimTest is a test of claims for CPUs of the node intel.
type claimTest struct {
	*test
	gates map[string]bool // those that are on
	intel *topology.Machine
	log   logtext.Log                // of the driver
	hog   atomic.Pointer[corev1.Pod] // cannot start
}

// stockScheduler configures a scheduler without Pinfold.
const stockScheduler = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
clientConnection: {kubeconfig: %s}
profiles: [{schedulerName: %s}]
`

func (c *claimTest) devices() []dra.Device { return dra.Devices(c.intel, dra.ByNUMA) }

// describe returns the devices as they are published. PCIe root 0000:10 is in NUMA node 1, say.
func (c *claimTest) describe(f dra.Features) (all []resourceapi.Device) {
	for i, d := range c.devices() {
		all = append(all, d.Describe(c.intel, []string{fmt.Sprintf("pci0000:%d0", i), fmt.Sprintf("pci0000:%d8", i)}, f))
	}
	return all
}

// declare makes the node say that its kubelet counts claims as requests.
func (c *claimTest) declare() {
	c.Helper()
	_, err := c.client.CoreV1().Nodes().Patch(c.Context(), intel, types.MergePatchType, []byte(`{"status":{"declaredFeatures":["`+requests+`"]}}`), metav1.PatchOptions{}, "status")
	c.must(err)
}

// publish runs the agent's driver, without a kubelet, until the test ends.
func (c *claimTest) publish() {
	c.Helper()
	c.intel, _ = c.machine(intel)
	kubelet := c.TempDir()
	c.must(os.Mkdir(filepath.Join(kubelet, "plugins_registry"), 0o750)) // which a kubelet makes
	log := slog.New(slog.NewTextHandler(&c.log, nil))
	c.grantClaims()
	driver := claims.New(claims.Options{
		Client: c.agentOf(intel), NodeName: intel, Offers: true, KubeletDir: kubelet, CDIDir: c.TempDir(),
		Devices: func() ([]dra.Device, func(dra.Features) []resourceapi.Device, error) {
			return c.devices(), c.describe, nil
		},
		Unserved: func() (pods []*corev1.Pod) {
			if hog := c.hog.Load(); hog != nil {
				pods = append(pods, hog)
			}
			return pods
		},
		Forfeit: func(_ types.UID, read func(*corev1.Pod, []dra.Device) (dra.Request, error)) error {
			_, err := read(c.hog.Load(), c.devices())
			return cmp.Or(err, errors.New("it requests too little"))
		},
		Kept: func() map[types.UID]bool { return nil }, Tell: func(pod *corev1.Pod, text string) { log.Info(text, "pod", pod.Name) },
		Now: time.Now, Period: time.Second, RetryAfter: time.Second, Log: log, Dedup: logdedup.New(log, time.Now),
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { driver.Run(ctx); close(ended) }()
	c.Cleanup(func() {
		cancel()
		<-ended
		if c.Failed() {
			c.Logf("the driver:\n%s", c.log.String())
		}
	})
}

// grantClaims gives the agents the rights that they have in the chart for claims.
func (c *claimTest) grantClaims() {
	c.Helper()
	c.applyAgentRights()
	_, text, _ := strings.Cut(string(must.Get(os.ReadFile("../../deploy/chart/templates/agent-rbac.yaml"))(c)), `{{- if include "pinfold.claims" . }}`)
	text, _, _ = strings.Cut(text, "{{- end }}")
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: c.home}}
	c.must(yaml.UnmarshalStrict([]byte(text), &role.Rules))
	c.createRole(role)
	_, err := c.client.RbacV1().ClusterRoleBindings().Create(c.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: c.home},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: c.home},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: nodetopology.LeaseNamespace, Name: admission.AgentAccount}}}, metav1.CreateOptions{})
	c.must(err)
}

// agentOf returns a client with the rights of a node's agent.
func (c *claimTest) agentOf(node string) kubernetes.Interface {
	c.Helper()
	return c.as(c.agentConfig(must.Get(c.client.CoreV1().Nodes().Get(c.Context(), node, metav1.GetOptions{}))(c))).client
}

// givesBack checks that another pod gets the devices of a pod that cannot start: those of a claim of its
// own and of one that was made by hand. They stay free, and can be deleted with the pod. No agent may
// give back claims of another node, or change them otherwise.
func (c *claimTest) givesBack() {
	c.Helper()
	c.create(strings.NewReplacer("resourceClaims: [", "resourceClaims: [{name: made, resourceClaimName: made}, ", "{name: exclusive}]", "{name: exclusive}, {name: made}]").
		Replace(c.claiming("hog", "six", 0)))
	hog := c.bound("hog")
	c.create(c.claiming("heir", "twelve", 12))
	c.waits("heir", "cannot allocate all claims")
	claims := c.client.ResourceV1().ResourceClaims(c.home)
	const all, part = `{"status":{"allocation":null,"reservedFor":null}}`, `{"status":{"reservedFor":null}}`
	for node, patch := range map[string]string{small0: all, intel: part} {
		_, err := c.agentOf(node).ResourceV1().ResourceClaims(c.home).Patch(c.Context(), "made", types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "node only") {
			c.Errorf("the agent of node %s may change a claim of node %s by %s: %v", node, intel, patch, err)
		}
	}
	c.hog.Store(hog)
	for _, name := range dra.ClaimNames(hog) {
		c.logs("resource claim "+name+" is given back: it requests too little", "pod=hog")
	}
	if !c.gates[requests] { // else what the scheduler has counted for claims counts until the pod is gone
		c.bound("heir")
	}
	for _, name := range dra.ClaimNames(hog) {
		claim := must.Get(claims.Get(c.Context(), name, metav1.GetOptions{}))(c)
		if claim.Status.Allocation != nil || len(claim.Status.ReservedFor) > 0 {
			c.Errorf("what was given back is allocated: %+v", claim.Status)
		}
	}
	c.must(claims.Delete(c.Context(), "made", metav1.DeleteOptions{}))
	c.must(c.podAPI().Delete(c.Context(), hog.Name, *metav1.NewDeleteOptions(0)))
	for _, name := range dra.ClaimNames(hog) {
		c.eventually("claim "+name+" is gone", func() error {
			claim, err := claims.Get(c.Context(), name, metav1.GetOptions{})
			if err == nil {
				return fmt.Errorf("it has finalizers %v", claim.Finalizers)
			} else if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		})
	}
}

// logs waits until a line of the driver's log has both texts.
func (c *claimTest) logs(text, more string) {
	c.Helper()
	c.eventually("the driver's log", func() error {
		for line := range strings.Lines(c.log.String()) {
			if strings.Contains(line, text) && strings.Contains(line, more) {
				return nil
			}
		}
		return fmt.Errorf("no line with %q and %s", text, more)
	})
}

// checkPublished waits until the devices are published with the features that the cluster has.
func (c *claimTest) checkPublished() {
	c.Helper()
	want := c.describe(dra.Features{Lists: c.gates[lists], Requests: c.gates[requests]})
	c.eventually("the devices are published", func() error {
		slices, err := c.client.ResourceV1().ResourceSlices().List(c.Context(), metav1.ListOptions{FieldSelector: "spec.driver=" + dra.Driver})
		if err == nil && (len(slices.Items) != 1 || !equality.Semantic.DeepEqual(slices.Items[0].Spec.Devices, want)) {
			err = fmt.Errorf("published is\n%+v\nand not\n%+v", slices.Items, want)
		}
		return err
	})
	if log := c.log.String(); strings.Contains(log, "level=WARN") {
		c.Errorf("the driver warns:\n%s", log)
	}
}

// claimObjects are templates for claims, and a node's GPUs, one in each NUMA node.
const claimObjects = `
class: {metadata: {name: cpu.pinfold.dev}, spec: {selectors: [{cel: {expression: device.driver == "cpu.pinfold.dev"}}]}}
gpus:
  metadata: {name: gpus}
  spec:
    driver: gpu.example.com
    nodeName: intel-104-0
    pool: {name: intel-104-0, resourceSliceCount: 1}
    devices:
    - {name: gpu-0, attributes: {resource.kubernetes.io/numaNode: {int: 0}, resource.kubernetes.io/pcieRoot: {string: "pci0000:08"}}}
    - {name: gpu-1, attributes: {resource.kubernetes.io/numaNode: {int: 1}, resource.kubernetes.io/pcieRoot: {string: "pci0000:18"}}}
gpuClass: {metadata: {name: gpu.example.com}, spec: {selectors: [{cel: {expression: device.driver == "gpu.example.com"}}]}}
claims:
- metadata: {name: forty}
  spec: {spec: {devices: {requests: [{name: cpus, exactly: {deviceClassName: cpu.pinfold.dev, capacity: {requests: {cpu: 40}}}}]}}}
- metadata: {name: thirteen}
  spec: {spec: {devices: {requests: [{name: cpus, exactly: {deviceClassName: cpu.pinfold.dev, capacity: {requests: {cpu: 13}}}}]}}}
- metadata: {name: six}
  spec: {spec: {devices: {requests: [{name: cpus, exactly: {deviceClassName: cpu.pinfold.dev, capacity: {requests: {cpu: 6}}}}]}}}
- metadata: {name: twelve}
  spec: {spec: {devices: {requests: [{name: cpus, exactly: {deviceClassName: cpu.pinfold.dev, capacity: {requests: {cpu: 12}}}}]}}}
- metadata: {name: gpu}
  spec:
    spec:
      devices:
        requests:
        - {name: cpus, exactly: {deviceClassName: cpu.pinfold.dev, capacity: {requests: {cpu: 12}}}}
        - name: gpu
          exactly: {deviceClassName: gpu.example.com, selectors: [{cel: {expression: 'device.attributes["resource.kubernetes.io"].numaNode == 1'}}]}
        constraints: [{requests: [cpus, gpu], matchAttribute: resource.kubernetes.io/numaNode}]
`

// createClaimObjects creates the objects until the test ends.
func (c *claimTest) createClaimObjects() {
	c.Helper()
	var objects struct {
		Class, GPUClass resourceapi.DeviceClass
		GPUs            resourceapi.ResourceSlice
		Claims          []resourceapi.ResourceClaimTemplate
	}
	text := claimObjects
	if c.gates[lists] { // of several PCIe roots, the CPUs must have that of the GPU
		text = strings.Replace(text, "matchAttribute: resource.kubernetes.io/numaNode", "matchAttribute: resource.kubernetes.io/pcieRoot", 1)
	}
	c.must(yaml.UnmarshalStrict([]byte(text), &objects))
	client, ctx := c.client.ResourceV1(), c.Context()
	c.Cleanup(func() {
		all := metav1.ListOptions{}
		for _, remove := range []func(context.Context, metav1.DeleteOptions, metav1.ListOptions) error{
			client.DeviceClasses().DeleteCollection, client.ResourceSlices().DeleteCollection, client.ResourceClaimTemplates(c.home).DeleteCollection} {
			if err := remove(context.Background(), metav1.DeleteOptions{}, all); err != nil {
				c.Error(err)
			}
		}
	})
	for _, class := range []*resourceapi.DeviceClass{&objects.Class, &objects.GPUClass} {
		_, err := client.DeviceClasses().Create(ctx, class, metav1.CreateOptions{})
		c.must(err)
	}
	_, err := client.ResourceSlices().Create(ctx, &objects.GPUs, metav1.CreateOptions{})
	c.must(err)
	made := objects.Claims[slices.IndexFunc(objects.Claims, func(c resourceapi.ResourceClaimTemplate) bool { return c.Name == "six" })].Spec.Spec
	_, err = client.ResourceClaims(c.home).Create(ctx, &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "made"}, Spec: made}, metav1.CreateOptions{})
	c.must(err)
	for i := range objects.Claims {
		_, err := client.ResourceClaimTemplates(c.home).Create(ctx, &objects.Claims[i], metav1.CreateOptions{})
		c.must(err)
	}
}

// claiming returns the manifest of a pod with a claim of some CPUs, which it requests, too, unless
// the scheduler counts the claim.
func (c *claimTest) claiming(name, template string, cpus int) string {
	if c.gates[requests] {
		cpus = 0
	}
	return fmt.Sprintf(`
metadata: {name: %s}
spec:
  schedulerName: %s
  resourceClaims: [{name: exclusive, resourceClaimTemplateName: %s}]
  containers: [{name: app, image: app, resources: {requests: {cpu: %d}, claims: [{name: exclusive}]}}]
`, name, ownName, template, cpus)
}

// claim creates a pod that claims CPUs, and reads what the scheduler has allocated to it as the
// agent does.
func (c *claimTest) claim(name, template string, cpus int) (part dra.Part, err error) {
	c.Helper()
	c.create(c.claiming(name, template, cpus))
	pod := c.bound(name)
	var all []*resourceapi.ResourceClaim
	for _, claim := range dra.ClaimNames(pod) {
		claim, err := c.client.ResourceV1().ResourceClaims(c.home).Get(c.Context(), claim, metav1.GetOptions{})
		c.must(err)
		all = append(all, claim)
	}
	if uid, err := dra.PodOf(all); err != nil || uid != pod.UID {
		c.Errorf("the claims are of pod %q and not %s, %v", uid, pod.UID, err)
	}
	request, err := dra.Read(pod, all, intel, c.devices())
	if err != nil {
		return part, err
	}
	if len(request.Parts) != 1 || request.Parts[0].CPUs != cpus || request.Parts[0].Container != "app" {
		c.Fatalf("pod %s claims %d CPUs, and gets %+v", name, cpus, request.Parts)
	}
	if counted := len(pod.Status.NodeAllocatableResourceClaimStatuses) > 0; counted != c.gates[requests] {
		c.Errorf("the scheduler has counted the claim: %v", counted)
	}
	return request.Parts[0], api.ClaimsRequested(pod, request.Claims, cpus, map[string]int{"app": cpus})
}
