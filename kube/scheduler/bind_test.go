package scheduler

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	fwk "k8s.io/kube-scheduler/framework"

	"pinfold.dev/pinfold/kube/api"
)

// clientOf is as much of a framework handle as Bind needs.
type clientOf struct {
	fwk.Handle
	client kubernetes.Interface
	said   *sayings
}

func (c clientOf) EventRecorder() events.EventRecorderLogger {
	return recorder{c.said}
}

func (c clientOf) ClientSet() kubernetes.Interface { return c.client }
func (c clientOf) APICacher() fwk.APICacher        { return nil }

func TestBind(t *testing.T) {
	lost := errors.New("the answer was lost")
	for _, test := range []struct {
		name     string
		cpus     int
		reserved bool
		carryOut bool   // the API server does what the Binding says
		stolen   string // another scheduler binds the pod to this node first
		answer   error
		sent     map[string]string // annotations of the Binding; nil when none is sent
		fails    bool
	}{
		{name: "with its CPUs", cpus: 2, reserved: true, carryOut: true, sent: map[string]string{api.AllocationAnnotation: "text"}},
		{name: "without a wish", carryOut: true, sent: map[string]string{}},
		{name: "nothing is reserved any more", cpus: 2, fails: true},
		{name: "refused", cpus: 2, reserved: true, answer: lost, sent: map[string]string{api.AllocationAnnotation: "text"}, fails: true},
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
			p.handle = clientOf{client: client, said: &sayings{}}
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
