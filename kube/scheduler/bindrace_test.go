package scheduler

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"pinfold.dev/pinfold/kube/api"
)

// onePod is an API server with one pod. It binds and patches the pod only at the version named in
// the request.
type onePod struct {
	*fake.Clientset
	mu  sync.Mutex
	pod *corev1.Pod
	// bind handles a Binding; by default it is apply.
	bind func(*corev1.Binding) error
}

func newOnePod(pod *corev1.Pod) *onePod {
	o := &onePod{Clientset: fake.NewSimpleClientset(), pod: pod.DeepCopy()}
	o.bind = o.apply
	o.PrependReactor("*", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		switch a := action.(type) {
		case clienttesting.CreateAction:
			binding := a.GetObject().(*corev1.Binding)
			return true, binding, o.bind(binding)
		case clienttesting.PatchAction:
			pod, err := o.patch(a.GetPatch())
			return true, pod, err
		}
		return true, o.now(), nil
	})
	return o
}

func (o *onePod) now() *corev1.Pod {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.pod.DeepCopy()
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

func (o *onePod) patch(text []byte) (*corev1.Pod, error) {
	var patch corev1.Pod
	if err := json.Unmarshal(text, &patch); err != nil {
		return nil, err
	}
	err := o.edit(patch.ResourceVersion, func(pod *corev1.Pod) { pod.Status.Conditions = patch.Status.Conditions })
	return o.now(), err
}

// bindOne binds a pod with reserved CPUs that was read at version 1.
func (o *onePod) bindOne(t *testing.T, pod *corev1.Pod) error {
	p := barePlugin(t)
	p.handle = clientOf{client: o, events: &eventLog{}}
	state, assumed := startCycle(t, p, pod), pod.DeepCopy()
	assumed.Spec.NodeName = "n"
	p.shared.reservations.put(assumed, reservation{node: "n", resourceVersion: pod.ResourceVersion, allocation: "text"})
	return p.Bind(t.Context(), state, assumed, "n").AsError()
}

func versionedPod() *corev1.Pod {
	pod := askingPod("pod", 2)
	pod.ResourceVersion = "1"
	return pod
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
					o := newOnePod(versionedPod())
					tries := 0
					o.bind = func(binding *corev1.Binding) error {
						if tries++; tries > 1 {
							return apierrors.NewForbidden(resource, "pod", errors.New("not again"))
						}
						binding = binding.DeepCopy()
						time.AfterFunc(late, func() { _ = o.apply(binding) })
						return answer
					}
					err := o.bindOne(t, versionedPod())
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
			o := newOnePod(versionedPod())
			if test.change != nil {
				if err := o.edit("", test.change); err != nil {
					t.Fatal(err)
				}
			}
			begun := time.Now()
			err := o.bindOne(t, versionedPod())
			if node := o.now().Spec.NodeName; (node == "n") != test.bound || (err == nil) != test.bound {
				t.Errorf("%s: Bind returned %v, and the pod is on node %q; want bound: %t", test.name, err, node, test.bound)
			}
			if took := time.Since(begun); took > 0 {
				t.Errorf("%s: it took %v", test.name, took)
			}
		})
	}
}
