package scheduler

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	fwk "k8s.io/kube-scheduler/framework"

	"pinfold.dev/pinfold/kube/api"
)

// clientOf is a framework handle for Bind.
type clientOf struct {
	fwk.Handle
	client kubernetes.Interface
	events *eventLog
}

func (c clientOf) EventRecorder() events.EventRecorderLogger {
	return recorder{c.events}
}

func (c clientOf) ClientSet() kubernetes.Interface { return c.client }
func (c clientOf) APICacher() fwk.APICacher        { return nil }

func TestBind(t *testing.T) {
	lost := errors.New("the answer was lost")
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
		{name: "with its CPUs", cpus: 2, reserved: true, carryOut: true, sent: map[string]string{api.AllocationAnnotation: "text"}},
		{name: "a pod that does not ask", carryOut: true, sent: map[string]string{}},
		{name: "the reservation is gone", cpus: 2, fails: true},
		{name: "refused", cpus: 2, reserved: true, answer: apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "pod", nil), sent: map[string]string{api.AllocationAnnotation: "text"}, fails: true},
		{name: "carried out, and the answer lost", cpus: 2, reserved: true, carryOut: true, answer: lost,
			sent: map[string]string{api.AllocationAnnotation: "text"}},
		{name: "bound elsewhere by another scheduler", cpus: 2, reserved: true, stolen: "m", answer: lost,
			sent: map[string]string{api.AllocationAnnotation: "text"}, fails: true},
		{name: "bound to the same node by another scheduler", cpus: 2, reserved: true, stolen: "n", answer: lost,
			sent: map[string]string{api.AllocationAnnotation: "text"}, fails: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			pod := askingPod("pod", test.cpus)
			client := fake.NewSimpleClientset(pod)
			var sent map[string]string
			client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
				binding := action.(clienttesting.CreateAction).GetObject().(*corev1.Binding)
				sent = map[string]string{}
				for key, value := range binding.Annotations {
					sent[key] = value
				}
				after := pod.DeepCopy()
				if after.Spec.NodeName = test.stolen; test.carryOut {
					after.Spec.NodeName, after.Annotations = binding.Target.Name, binding.Annotations
				}
				if err := client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), after, after.Namespace); err != nil {
					t.Error(err)
				}
				return true, binding, test.answer
			})
			p := barePlugin(t)
			p.handle = clientOf{client: client, events: &eventLog{}}
			state := startCycle(t, p, pod)
			assumed := pod.DeepCopy()
			assumed.Spec.NodeName = "n"
			if test.reserved {
				p.shared.reservations.put(assumed, reservation{node: "n", resourceVersion: pod.ResourceVersion, allocation: "text"})
			}
			status := p.Bind(context.Background(), state, assumed, "n")
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
				pods, pod := corev1.SchemeGroupVersion.WithResource("pods"), askingPod("pod", 2)
				client := fake.NewSimpleClientset(pod)
				end, sent := time.Now().Add(outage), 0
				bind := func(binding *corev1.Binding) error {
					after := pod.DeepCopy()
					after.Spec.NodeName, after.Annotations = binding.Target.Name, binding.Annotations
					return client.Tracker().Update(pods, after, after.Namespace)
				}
				client.PrependReactor("*", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
					down := time.Now().Before(end)
					create, ok := action.(clienttesting.CreateAction)
					if !ok {
						if down {
							return true, nil, errors.New("connection refused")
						}
						return false, nil, nil
					}
					sent++
					binding := create.GetObject().(*corev1.Binding)
					if sent == test.carryOut || !down {
						if err := bind(binding); err != nil {
							t.Error(err)
						}
					}
					if down {
						return true, nil, errors.New("connection lost")
					}
					return true, binding, nil
				})
				p := barePlugin(t)
				p.handle = clientOf{client: client, events: &eventLog{}}
				state, assumed := startCycle(t, p, pod), pod.DeepCopy()
				assumed.Spec.NodeName = "n"
				p.shared.reservations.put(assumed, reservation{node: "n", resourceVersion: pod.ResourceVersion, allocation: "text"})
				done := make(chan *fwk.Status, 1)
				go func() { done <- p.Bind(t.Context(), state, assumed, "n") }()
				time.Sleep(outage / 2)
				select {
				case status := <-done:
					t.Fatalf("Bind ended during the outage: %v", status)
				default:
				}
				if _, ok := p.shared.reservations.of(assumed); !ok {
					t.Error("the CPUs were released during the outage")
				}
				switch test.then {
				case "":
				case "gone":
					if err := client.Tracker().Delete(pods, pod.Namespace, pod.Name); err != nil {
						t.Fatal(err)
					}
				default:
					if err := bind(&corev1.Binding{Target: corev1.ObjectReference{Name: test.then}}); err != nil {
						t.Fatal(err)
					}
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
		pod := askingPod("pod", 2)
		client := fake.NewSimpleClientset(pod)
		client.PrependReactor("*", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
			return action.GetVerb() != "get", nil, apierrors.NewRequestEntityTooLargeError("etcdserver: request is too large")
		})
		p := barePlugin(t)
		p.handle = clientOf{client: client, events: &eventLog{}}
		state, assumed := startCycle(t, p, pod), pod.DeepCopy()
		assumed.Spec.NodeName = "n"
		p.shared.reservations.put(assumed, reservation{node: "n", resourceVersion: pod.ResourceVersion, allocation: "text"})
		begun := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		status := p.Bind(ctx, state, assumed, "n")
		if status.IsSuccess() || !strings.Contains(status.Message(), "the pod is too large") {
			t.Errorf("status %v: %s", status.Code(), status.Message())
		}
		if waited := time.Since(begun); waited > 0 {
			t.Errorf("the CPUs stayed reserved for %v", waited)
		}
	})
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
