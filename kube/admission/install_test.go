package admission

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"

	"pinfold.dev/pinfold/test/must"
)

// TestInstallAgain loses the answer to each request in turn, after the server has carried it out.
// The next call then installs what is missing.
func TestInstallAgain(t *testing.T) {
	const objects = 8
	lost := errors.New("http2: client connection lost")
	for n := range objects {
		client := fake.NewClientset()
		created := 0
		client.PrependReactor("create", "*", func(action kubetesting.Action) (bool, runtime.Object, error) {
			if created++; created != n+1 {
				return false, nil, nil
			}
			must.Do(t, client.Tracker().Create(action.GetResource(), action.(kubetesting.CreateAction).GetObject(), ""))
			return true, nil, lost
		})
		if err := Install(t.Context(), client); !errors.Is(err, lost) {
			t.Errorf("request %d: error %v, want %v", n, err, lost)
		}
		if err := Install(t.Context(), client); err != nil {
			t.Errorf("request %d: the next call: %v", n, err)
		}
		registration := client.AdmissionregistrationV1()
		policies := must.Get(registration.ValidatingAdmissionPolicies().List(t.Context(), metav1.ListOptions{}))(t)
		bindings := must.Get(registration.ValidatingAdmissionPolicyBindings().List(t.Context(), metav1.ListOptions{}))(t)
		raising := must.Get(registration.MutatingAdmissionPolicies().List(t.Context(), metav1.ListOptions{}))(t)
		raisingBindings := must.Get(registration.MutatingAdmissionPolicyBindings().List(t.Context(), metav1.ListOptions{}))(t)
		if have := len(policies.Items) + len(bindings.Items) + len(raising.Items) + len(raisingBindings.Items); have != objects {
			t.Errorf("request %d: %d objects, want %d", n, have, objects)
		}
	}
}
