package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	fwk "k8s.io/kube-scheduler/framework"

	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/test/must"
)

// onePod is an API server with one pod. It binds and patches the pod only at the version named in
// the request.
type onePod struct {
	*fake.Clientset
	mu  sync.Mutex
	pod *corev1.Pod // nil when it was deleted
	// bind handles a Binding; by default it is apply.
	bind func(*corev1.Binding) error
	// fail returns the error of another request; by default nil.
	fail func(verb string) error
}

func newOnePod(pod *corev1.Pod) *onePod {
	o := &onePod{Clientset: fake.NewSimpleClientset(), pod: pod.DeepCopy(), fail: func(string) error { return nil }}
	o.bind = o.apply
	o.PrependReactor("*", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if create, ok := action.(clienttesting.CreateAction); ok {
			binding := create.GetObject().(*corev1.Binding)
			return true, binding, o.bind(binding)
		}
		err := o.fail(action.GetVerb())
		if patch, ok := action.(clienttesting.PatchAction); ok && err == nil {
			err = o.patch(patch.GetPatch())
		}
		pod := o.now()
		if err == nil && pod == nil {
			err = apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "pod")
		}
		return true, pod, err
	})
	return o
}

func (o *onePod) now() *corev1.Pod {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.pod.DeepCopy()
}

func (o *onePod) remove() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pod = nil
}

// edit changes the pod if it has this version; "" means any version.
func (o *onePod) edit(version string, change func(*corev1.Pod)) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if version != "" && version != o.pod.ResourceVersion || o.pod.Spec.NodeName != "" {
		return apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, o.pod.Name, errors.New("precondition failed"))
	}
	n, err := strconv.Atoi(o.pod.ResourceVersion)
	if err != nil {
		return err
	}
	change(o.pod)
	o.pod.ResourceVersion = strconv.Itoa(n + 1)
	return nil
}

func (o *onePod) apply(binding *corev1.Binding) error {
	return o.edit(binding.ResourceVersion, func(pod *corev1.Pod) {
		pod.Spec.NodeName = binding.Target.Name
		for key, value := range binding.Annotations {
			metav1.SetMetaDataAnnotation(&pod.ObjectMeta, key, value)
		}
	})
}

// steal binds the pod to a node as another scheduler does.
func (o *onePod) steal(node string) error {
	return o.edit("", func(pod *corev1.Pod) { pod.Spec.NodeName = node })
}

func (o *onePod) patch(text []byte) error {
	var patch corev1.Pod
	if err := json.Unmarshal(text, &patch); err != nil {
		return err
	}
	return o.edit(patch.ResourceVersion, func(pod *corev1.Pod) { pod.Status.Conditions = patch.Status.Conditions })
}

// binder is a plugin that has decided to bind a pod to node "n".
type binder struct {
	plugin  *Plugin
	state   fwk.CycleState
	assumed *corev1.Pod
}

// newBinder decides about a pod as it was read, with or without a reservation.
func newBinder(t *testing.T, client kubernetes.Interface, pod *corev1.Pod, reserved bool) binder {
	t.Helper()
	p := barePlugin(t)
	p.handle = clientOf{client: client, events: &eventLog{}}
	b := binder{p, startCycle(t, p, pod), pod.DeepCopy()}
	b.assumed.Spec.NodeName = "n"
	if reserved {
		p.shared.reservations.put(b.assumed, reservation{node: "n", resourceVersion: pod.ResourceVersion, allocation: "text"})
	}
	return b
}

func (b binder) bind(ctx context.Context) *fwk.Status {
	return b.plugin.Bind(ctx, b.state, b.assumed, "n")
}

// clientOf is a framework handle for Bind.
type clientOf struct {
	fwk.Handle
	client kubernetes.Interface
	events *eventLog
}

func (c clientOf) EventRecorder() events.EventRecorderLogger { return recorder{c.events} }
func (c clientOf) ClientSet() kubernetes.Interface           { return c.client }
func (c clientOf) APICacher() fwk.APICacher                  { return nil }

func TestBind(t *testing.T) {
	lost, allocated := errors.New("the answer was lost"), map[string]string{api.AllocationAnnotation: "text"}
	for _, test := range []struct {
		name     string
		cpus     int
		reserved bool
		carryOut bool   // the API server carries out the Binding
		stolen   string // another scheduler binds the pod to this node first
		answer   error
		sent     map[string]string // annotations of the Binding; nil when none is sent
		fails    bool
	}{
		{name: "with its CPUs", cpus: 2, reserved: true, carryOut: true, sent: allocated},
		{name: "a pod that does not ask", carryOut: true, sent: map[string]string{}},
		{name: "the reservation is gone", cpus: 2, fails: true},
		{name: "refused", cpus: 2, reserved: true, answer: apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "pod", nil), sent: allocated, fails: true},
		{name: "carried out, and the answer lost", cpus: 2, reserved: true, carryOut: true, answer: lost, sent: allocated},
		{name: "bound elsewhere by another scheduler", cpus: 2, reserved: true, stolen: "m", answer: lost, sent: allocated, fails: true},
		{name: "bound to the same node by another scheduler", cpus: 2, reserved: true, stolen: "n", answer: lost, sent: allocated, fails: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := newOnePod(askingPod("pod", test.cpus))
			var sent map[string]string
			o.bind = func(binding *corev1.Binding) (err error) {
				sent = maps.Clone(binding.Annotations)
				switch {
				case test.stolen != "":
					err = o.steal(test.stolen)
				case test.carryOut:
					err = o.apply(binding)
				}
				if err != nil {
					t.Error(err)
				}
				return test.answer
			}
			status := newBinder(t, o, askingPod("pod", test.cpus), test.reserved).bind(t.Context())
			if status.IsSuccess() == test.fails {
				t.Errorf("status %v: %s", status.Code(), status.Message())
			}
			if diff := cmp.Diff(test.sent, sent); diff != "" {
				t.Errorf("annotations of the Binding (-want +got):\n%s", diff)
			}
		})
	}
}

// While the API server is unreachable, it is unknown whether the pod is bound, and its CPUs stay
// reserved.
func TestBindThroughAnOutage(t *testing.T) {
	const outage = 30 * time.Second
	for _, test := range []struct {
		name     string
		carryOut int    // the number of the request that is carried out without an answer
		then     string // meanwhile the pod is "gone" or bound to this other node
		fails    bool
	}{
		{name: "the first request was carried out", carryOut: 1},
		{name: "none was carried out"},
		{name: "the pod is gone", then: "gone", fails: true},
		{name: "the pod is bound elsewhere", then: "m", fails: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newOnePod(askingPod("pod", 2))
				end, sent := time.Now().Add(outage), 0
				o.fail = func(string) error {
					if time.Now().Before(end) {
						return errors.New("connection refused")
					}
					return nil
				}
				o.bind = func(binding *corev1.Binding) error {
					sent++
					if down := o.fail(""); sent != test.carryOut && down != nil {
						return down
					}
					return errors.Join(o.apply(binding), o.fail(""))
				}
				b := newBinder(t, o, askingPod("pod", 2), true)
				done := make(chan *fwk.Status, 1)
				go func() { done <- b.bind(t.Context()) }()
				time.Sleep(outage / 2)
				select {
				case status := <-done:
					t.Fatalf("Bind ended during the outage: %v", status)
				default:
				}
				if _, ok := b.plugin.shared.reservations.of(b.assumed); !ok {
					t.Error("the CPUs were released during the outage")
				}
				switch test.then {
				case "":
				case "gone":
					o.remove()
				default:
					must.Do(t, o.steal(test.then))
				}
				if status := <-done; status.IsSuccess() == test.fails {
					t.Errorf("status %v: %s", status.Code(), status.Message())
				}
				if late := time.Since(end); late < 0 || late > 2*bindPause {
					t.Errorf("Bind ended %v after the outage", late)
				}
				if want := map[bool]int{true: 1, false: 2}[test.carryOut > 0 || test.then != ""]; sent != want {
					t.Errorf("%d Bindings were sent, want %d", sent, want)
				}
			})
		})
	}
}

// The Binding of a pod that is as large as etcd accepts can never be carried out, and the pod's
// version cannot be changed either. Its CPUs are released at once.
func TestBindTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, tooLarge := newOnePod(askingPod("pod", 2)), apierrors.NewRequestEntityTooLargeError("etcdserver: request is too large")
		o.bind = func(*corev1.Binding) error { return tooLarge }
		o.fail = func(verb string) error {
			if verb != "get" {
				return tooLarge
			}
			return nil
		}
		begun := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		status := newBinder(t, o, askingPod("pod", 2), true).bind(ctx)
		if status.IsSuccess() || !strings.Contains(status.Message(), "the pod is too large") {
			t.Errorf("status %v: %s", status.Code(), status.Message())
		}
		if waited := time.Since(begun); waited > 0 {
			t.Errorf("the CPUs stayed reserved for %v", waited)
		}
	})
}

// The API server answers with an error, or not at all, and carries out the Binding later. A pod
// whose CPUs were released must not be bound to them afterwards.
func TestLateBindingsAreVoid(t *testing.T) {
	resource := schema.GroupResource{Resource: "pods/binding"}
	for name, answer := range map[string]error{
		"conflict":     apierrors.NewConflict(resource, "pod", errors.New("etcdserver: request timed out")),
		"forbidden":    apierrors.NewForbidden(resource, "pod", errors.New("a webhook rejected it")),
		"internal":     apierrors.NewInternalError(errors.New("etcdserver: leader changed")),
		"time-out":     apierrors.NewTimeoutError("it took too long", 0),
		"no answer":    errors.New("connection lost"),
		"many at once": apierrors.NewTooManyRequests("later", 0),
	} {
		for _, late := range []time.Duration{0, 100 * time.Millisecond, 1500 * time.Millisecond, 10 * time.Second} {
			t.Run(fmt.Sprintf("%s, %v late", name, late), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					o := newOnePod(askingPod("pod", 2))
					tries := 0
					o.bind = func(binding *corev1.Binding) error {
						if tries++; tries > 1 {
							return apierrors.NewForbidden(resource, "pod", errors.New("not again"))
						}
						binding = binding.DeepCopy()
						time.AfterFunc(late, func() { _ = o.apply(binding) })
						return answer
					}
					err := newBinder(t, o, askingPod("pod", 2), true).bind(t.Context()).AsError()
					time.Sleep(time.Minute)
					if node := o.now().Spec.NodeName; (node != "") != (err == nil) {
						t.Errorf("Bind returned %v, and the pod is on node %q", err, node)
					}
				})
			})
		}
	}
}

// A pod that was edited since the decision is not bound. A pod of which only the status has changed
// is bound at its new version.
func TestBindEditedPod(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*corev1.Pod)
		bound  bool
	}{
		{"unchanged", nil, true},
		{"its status", func(pod *corev1.Pod) { pod.Status.NominatedNodeName = "m" }, true},
		{"a forged allocation", func(pod *corev1.Pod) { pod.Annotations[api.AllocationAnnotation] = "x" }, false},
		{"it no longer asks", func(pod *corev1.Pod) { delete(pod.Annotations, api.CPUSetSchedulerAnnotation) }, false},
		{"its limit", func(pod *corev1.Pod) { pod.Spec.Containers[0].Resources.Limits = nil }, false},
		{"a label", func(pod *corev1.Pod) { pod.Labels = map[string]string{"a": "b"} }, false},
		{"a gate", func(pod *corev1.Pod) { pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} }, false},
		{"it is being deleted", func(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{} }, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			o := newOnePod(askingPod("pod", 2))
			if test.change != nil {
				must.Do(t, o.edit("", test.change))
			}
			begun := time.Now()
			err := newBinder(t, o, askingPod("pod", 2), true).bind(t.Context()).AsError()
			if node := o.now().Spec.NodeName; (node == "n") != test.bound || (err == nil) != test.bound {
				t.Errorf("%s: Bind returned %v, and the pod is on node %q; want bound: %t", test.name, err, node, test.bound)
			}
			if took := time.Since(begun); took > 0 {
				t.Errorf("%s: it took %v", test.name, took)
			}
		})
	}
}

// A pod that asks is refused if its status could grow beyond what etcd accepts.
func TestPodsThatMayGrowTooLarge(t *testing.T) {
	for _, test := range []struct {
		name       string
		bytes      int // of the first container
		containers int
		exceeds    bool
	}{
		{"small", 100, 1, false},
		{"large", 1500 << 10, 1, false},
		{"as large as etcd accepts", 1536<<10 - 200, 1, true},
		{"hundreds of containers", 100, 900, false},
		{"thousands of containers", 100, 1500, true},
	} {
		pod := askingPod("pod", 1)
		pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "LONG", Value: strings.Repeat("x", test.bytes)}}
		for i := range test.containers {
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, corev1.Container{Name: fmt.Sprint("init-", i), Image: "example.com/some/image:latest"})
		}
		if got := exceedsObject(pod); got != "" != test.exceeds {
			t.Errorf("%s: %q", test.name, got)
		}
	}
}
