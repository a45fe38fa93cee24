package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1"

	"pinfold.dev/pinfold/agent/control/groups"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/dra"
	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/test/must"
)

// claimWorld is a node with a pod that claims 2 CPUs.
type claimWorld struct {
	*world
	dir         string // of kubelet and runtime
	claim       *drapb.Claim
	statusFails atomic.Bool // the status of claims cannot be written
}

func newClaimWorld(t *testing.T) *claimWorld {
	t.Helper()
	pod := newPod("web")
	pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "cpus"}},
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}}
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "cpus", ResourceClaimName: new("web-cpus")}}
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "web-cpus", Namespace: pod.Namespace, UID: "claim-1"},
		Status: resourceapi.ResourceClaimStatus{
			ReservedFor: []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: pod.Name, UID: pod.UID}},
			Allocation: &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{{
				Request: "cpus", Driver: dra.Driver, Pool: nodeName, Device: "numa-0", ShareID: new(types.UID("3ac2a8f7-52dd-4c4c-9e49-6a9e0a7b7d2f")),
				ConsumedCapacity: map[resourceapi.QualifiedName]resource.Quantity{dra.Capacity: resource.MustParse("2")}}}}}}}
	dir := must.Get(os.MkdirTemp("", "dra"))(t) // short, because of its sockets
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	must.Do(t, os.MkdirAll(filepath.Join(dir, "plugins_registry"), 0o755))
	w := &claimWorld{world: newWorld(t, pod), dir: dir, claim: &drapb.Claim{Namespace: claim.Namespace, Name: claim.Name, Uid: string(claim.UID)}}
	w.client.PrependReactor("patch", "resourceclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
		return w.statusFails.Load(), nil, errors.New("the API server is gone")
	})
	must.Do(t, w.client.Tracker().Add(claim))
	w.root = newTree(t).root
	w.more = func(o *Options) { o.Devices, o.KubeletDir, o.CDIDir = dra.ByNUMA, dir, filepath.Join(dir, "cdi") }
	return w
}

// kubelet returns a client of the driver, as the kubelet's.
func (w *claimWorld) kubeletClient() drapb.DRAPluginClient {
	w.t.Helper()
	socket := filepath.Join(w.dir, "plugins", dra.Driver, "dra.sock")
	connection := must.Get(grpc.NewClient("passthrough:///"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 20 * time.Millisecond, MaxDelay: 20 * time.Millisecond}}),
		grpc.WithContextDialer(func(ctx context.Context, path string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		})))(w.t)
	w.t.Cleanup(func() { _ = connection.Close() })
	return drapb.NewDRAPluginClient(connection)
}

// prepare asks as the kubelet does, once the driver answers, and returns the CPUs that the runtime
// is told, or the error of the claim.
func (w *claimWorld) prepare() (cpuset.Set, error) {
	w.t.Helper()
	var answer *drapb.NodePrepareResourceResponse
	client := w.kubeletClient()
	w.eventually(func() error {
		all, err := client.NodePrepareResources(w.t.Context(), &drapb.NodePrepareResourcesRequest{Claims: []*drapb.Claim{w.claim}})
		if err != nil {
			return err
		}
		answer = all.Claims[w.claim.Uid]
		return nil
	})
	if answer.Error != "" {
		return cpuset.Set{}, errors.New(answer.Error)
	}
	text := must.Get(os.ReadFile(w.spec()))(w.t)
	_, after, _ := strings.Cut(string(text), "PINFOLD_CPUS=")
	list, _, _ := strings.Cut(after, `"`)
	if len(answer.Devices) != 1 || len(answer.Devices[0].CdiDeviceIds) != 1 || !strings.Contains(string(text), `"claim-1-cpus"`) {
		w.t.Errorf("the kubelet is told %v, and the runtime\n%s", answer, text)
	}
	return must.Get(cpuset.Parse(list))(w.t), nil
}

func (w *claimWorld) unprepare() error {
	w.t.Helper()
	var text string
	client := w.kubeletClient()
	w.eventually(func() error {
		all, err := client.NodeUnprepareResources(w.t.Context(), &drapb.NodeUnprepareResourcesRequest{Claims: []*drapb.Claim{w.claim}})
		if err == nil {
			text = all.Claims[w.claim.Uid].Error
		}
		return err
	})
	if text != "" {
		return errors.New(text)
	}
	return nil
}

// spec is the file that tells the runtime of the claim.
func (w *claimWorld) spec() string {
	return filepath.Join(w.dir, "cdi", dra.Driver+"-claim-claim-1.json")
}

// claimFault makes one step fail until it is mended.
type claimFault struct {
	name string
	set  func(w *claimWorld) (mend func())
}

// blocked makes a path a directory that is not empty, so that no file of that name can be written or
// removed.
func blocked(path func(*claimWorld) string) func(*claimWorld) func() {
	return func(w *claimWorld) func() {
		name, directory := path(w), filepath.Join(w.t.TempDir(), "blocks")
		saved, errRead := os.ReadFile(name)
		must.Do(w.t, os.MkdirAll(filepath.Join(directory, "full"), 0o755))
		must.Do(w.t, os.MkdirAll(filepath.Dir(name), 0o755))
		w.eventually(func() error { // the agent may be writing
			_ = os.Remove(name)
			return os.Rename(directory, name)
		})
		return func() {
			must.Do(w.t, os.Rename(name, directory))
			if errRead == nil {
				must.Do(w.t, os.WriteFile(name, saved, 0o644))
			}
		}
	}
}

var failsToSave = claimFault{"save", blocked(func(w *claimWorld) string { return allocationsFile(w.runDir) + ".new" })}

// TestClaimsInterrupted checks that a claim whose preparation or end fails at any step, or whose
// agent ends there, gets its CPUs once, and leaves nothing.
func TestClaimsInterrupted(t *testing.T) {
	none := claimFault{"answer", func(*claimWorld) func() { return func() {} }}
	status := claimFault{"status", func(w *claimWorld) func() {
		w.statusFails.Store(true)
		return func() { w.statusFails.Store(false) }
	}}
	preparing := []claimFault{failsToSave, {"runtime", blocked(func(w *claimWorld) string { return w.spec() + ".new" })}, status, none}
	ending := []claimFault{failsToSave, {"runtime", blocked((*claimWorld).spec)}, none}
	for i, first := range preparing {
		for _, restart := range []bool{false, true} {
			last := ending[i%len(ending)]
			t.Run(fmt.Sprintf("%s %s restart=%v", first.name, last.name, restart), func(t *testing.T) {
				w := newClaimWorld(t)
				stop := w.start()
				again := func() {
					if restart {
						stop()
						stop = w.start()
					}
				}
				mend := first.set(w)
				before, err := w.prepare()
				if (err == nil) != (first.name == none.name) {
					t.Errorf("preparing answers %v", err)
				}
				mend()
				again()
				got := must.Get(w.prepare())(t)
				if got.Len() != 2 || !before.IsEmpty() && got != before {
					t.Errorf("the claim has CPUs %q, and had %q", got, before)
				}
				claim := must.Get(w.client.ResourceV1().ResourceClaims("default").Get(t.Context(), "web-cpus", metav1.GetOptions{}))(t)
				if len(claim.Status.Devices) != 1 || string(claim.Status.Devices[0].Data.Raw) != fmt.Sprintf(`{"container":"app","cpus":%q}`, got) {
					t.Errorf("the claim's status is %+v", claim.Status.Devices)
				}
				mend = last.set(w)
				if err := w.unprepare(); (err == nil) != (last.name == none.name) {
					t.Errorf("the end answers %v", err)
				}
				mend()
				again()
				must.Do(t, w.unprepare())
				must.Do(t, w.unprepare()) // which is not an error
				left, err := filepath.Glob(filepath.Join(w.dir, "cdi", "*"))
				mounted, errMounted := filepath.Glob(filepath.Join(w.runDir, "claims", "*"))
				saved := must.Get(os.ReadFile(allocationsFile(w.runDir)))(t)
				if err != nil || errMounted != nil || len(left)+len(mounted) > 0 || string(saved) != "{}" {
					t.Errorf("left are %q, %q and %s", left, mounted, saved)
				}
			})
		}
	}
}

// TestClaimsAfterLoss checks that an agent that finds nothing saved, or an old state, knows CPUs of
// claims by what the runtime was told, and removes what the runtime was told of claims without CPUs.
func TestClaimsAfterLoss(t *testing.T) {
	w := newClaimWorld(t)
	stop := w.start()
	before := must.Get(w.prepare())(t)
	stop()
	must.Do(t, os.WriteFile(allocationsFile(w.runDir), []byte("{}"), 0o644))
	stop = w.start()
	if got := must.Get(w.prepare())(t); got != before {
		t.Errorf("from an old state the claim has CPUs %q, and had %q", got, before)
	}
	stop()
	must.Do(t, os.Remove(allocationsFile(w.runDir)))
	stale := filepath.Join(w.dir, "cdi", dra.Driver+"-claim-claim-2.json")
	must.Do(t, os.WriteFile(stale, []byte("{}"), 0o644))
	stop = w.start()
	if got := must.Get(w.prepare())(t); got != before {
		t.Errorf("the claim has CPUs %q, and had %q", got, before)
	}
	w.eventually(func() error {
		if _, err := os.Stat(stale); !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("a file of a claim without CPUs: %w", err)
		}
		return nil
	})
	stop()
	for _, served := range []bool{true, false} { // a pod whose claim waits for CPUs cannot end either
		if !served {
			must.Do(t, errors.Join(os.Remove(allocationsFile(w.runDir)), os.Remove(w.spec())))
		}
		if _, err := Cleanup(t.Context(), w.options()); err == nil || !strings.Contains(err.Error(), "pod default/web has a resource claim for CPUs") {
			t.Errorf("cleanup under a pod with a claim, served: %v, answers %v", served, err)
		}
	}
}

// TestClaimGivenBack checks that a pod that does not request what its claim asks for loses the claim, and
// is told so, also if the pod is mended and the claim allocated again.
func TestClaimGivenBack(t *testing.T) {
	w := newClaimWorld(t)
	pods, claims := w.client.CoreV1().Pods("default"), w.client.ResourceV1().ResourceClaims("default")
	pod := must.Get(pods.Get(t.Context(), "web", metav1.GetOptions{}))(t)
	allocated := must.Get(claims.Get(t.Context(), "web-cpus", metav1.GetOptions{}))(t)
	pod.Status.Phase = corev1.PodPending
	for i, request := range []string{"1m", "2"} {
		pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(request)
		must.Get(pods.Update(t.Context(), pod, metav1.UpdateOptions{}))(t)
		must.Get(claims.Update(t.Context(), allocated, metav1.UpdateOptions{}))(t)
		if i == 0 {
			w.start()
		}
		w.eventually(func() error {
			claim, err := claims.Get(t.Context(), "web-cpus", metav1.GetOptions{})
			if err == nil && (claim.Status.Allocation != nil || claim.Status.ReservedFor != nil) {
				err = errors.New("the claim is allocated")
			}
			return err
		})
		for _, reason := range []string{groups.GivenBack, groups.NotGiven} {
			w.eventually(func() error { return w.told("web", reason, "set its resources.requests.cpu to 2") })
		}
	}
}

// TestUnpreparedClaim: while the claim of a pod is not prepared, what the agent publishes says why.
func TestUnpreparedClaim(t *testing.T) {
	w := newClaimWorld(t)
	claims := w.client.ResourceV1().ResourceClaims("default")
	whole := must.Get(claims.Get(t.Context(), "web-cpus", metav1.GetOptions{}))(t)
	lacking := whole.DeepCopy() // as allocated without the feature gate
	lacking.Status.Allocation.Devices.Results[0].ConsumedCapacity = nil
	must.Get(claims.Update(t.Context(), lacking, metav1.UpdateOptions{}))(t)
	w.start()
	says := func(want int) func() error {
		return func() error {
			object, err := w.topologies.Get(t.Context(), nodeName, metav1.GetOptions{})
			if err != nil {
				return err
			}
			found := slices.DeleteFunc(object.Status.Findings, func(f nodetopology.Finding) bool {
				return f.Reason != groups.NotGiven || !strings.Contains(f.Message, "the cluster needs the feature gate DRAConsumableCapacity")
			})
			if len(found) != want {
				return fmt.Errorf("%d findings say it: %+v", len(found), found)
			}
			return nil
		}
	}
	if cpus, err := w.prepare(); err == nil {
		t.Errorf("the claim has CPUs %q", cpus)
	}
	w.eventually(says(1))
	must.Get(claims.Update(t.Context(), whole, metav1.UpdateOptions{}))(t)
	must.Get(w.prepare())(t)
	w.eventually(says(0))
}

// TestClaimsNotServed: an agent that cannot serve claims says so in the node's condition.
func TestClaimsNotServed(t *testing.T) {
	w := newClaimWorld(t)
	more := w.more
	w.more = func(o *Options) {
		more(o)
		o.KubeletDir = filepath.Join(w.dir, "none", "kubelet")
		must.Do(t, os.WriteFile(filepath.Join(w.dir, "none"), nil, 0o600))
	}
	w.start()
	w.eventually(func() error {
		c := api.Condition(must.Get(w.client.CoreV1().Nodes().Get(t.Context(), nodeName, metav1.GetOptions{}))(t), nodetopology.BindingCondition)
		if c.Status != corev1.ConditionFalse || c.Reason != groups.ClaimsNotServed || !strings.Contains(c.Message, "make the driver's directory") {
			return fmt.Errorf("the condition is %+v", c)
		}
		return nil
	})
}
