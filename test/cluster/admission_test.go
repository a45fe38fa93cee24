package cluster

import (
	"context"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/kube/admission"
	"pinfold.dev/pinfold/kube/api"
)

// tryPatch changes a pod unless it is only a trial, and returns what the API server
// says.
func (c *test) tryPatch(pod, patch string, trial bool, subresource ...string) error {
	options := metav1.PatchOptions{}
	if trial {
		options.DryRun = []string{metav1.DryRunAll}
	}
	_, err := c.client.CoreV1().Pods("default").Patch(c.Context(), pod, types.MergePatchType, []byte(patch), options, subresource...)
	return err
}

// unprotect lets a test edit allocations, as an administrator does for repairs. The
// pod is one on which to try whether it has come into effect.
func (c *test) unprotect(pod string) {
	c.Helper()
	label := func(value string) error {
		patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, admission.UnprotectedLabel, value)
		_, err := c.client.CoreV1().Namespaces().Patch(context.Background(), "default", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	}
	c.must(label(`"true"`))
	c.Cleanup(func() {
		if err := label("null"); err != nil {
			c.Error(err)
		}
	})
	c.eventually(func() string {
		if err := c.tryPatch(pod, `{"metadata":{"annotations":{"pinfold.dev/cpu-allocation":"x"}}}`, true); err != nil {
			return err.Error()
		}
		return ""
	})
}

// What would take the CPUs of another pod is refused on bound pods, with a message
// that says what to do instead, and all else is not.
func TestAdmission(t *testing.T) {
	c := begin(t)
	c.create(asking("asks", 2, ""))
	allocation := c.bound("asks").Annotations[api.AllocationAnnotation]
	c.create(`
metadata: {name: plain, annotations: {cpu-policy: none}}
spec:
  containers: [{name: app, image: app, resources: {limits: {cpu: 2}}}]
`)
	c.bound("plain")
	c.create(asking("waits", 200, ""))
	c.waits("waits", "CPUs")
	const editing, begins = "annotation pinfold.dev/cpu-allocation is written by the scheduler alone", "cannot begin to ask for CPUs"
	for _, test := range []struct {
		name, pod, annotations, refused string
	}{
		{"allocation changed", "asks", `{"pinfold.dev/cpu-allocation":"x"}`, editing},
		{"allocation removed", "asks", `{"pinfold.dev/cpu-allocation":null}`, editing},
		{"all annotations removed", "asks", `null`, editing},
		{"allocation written", "plain", `{"pinfold.dev/cpu-allocation":"x"}`, editing},
		{"allocation of a pod that waits", "waits", `{"pinfold.dev/cpu-allocation":"x"}`, editing},
		{"allocation as it is", "asks", fmt.Sprintf(`{"pinfold.dev/cpu-allocation":%q,"other":"x"}`, allocation), ""},
		{"begins to ask", "plain", `{"cpuset-scheduler":"true","cpu-policy":null}`, begins},
		{"begins to ask, prefixed", "plain", `{"pinfold.dev/cpuset-scheduler":"true","cpu-policy":"static"}`, begins},
		{"a word without effect", "plain", `{"cpuset-scheduler":"true"}`, ""},
		{"ceases to ask", "asks", `{"cpuset-scheduler":null}`, ""},
		{"ceases to ask by the policy", "asks", `{"cpu-policy":"none"}`, ""},
		{"begins to ask while it waits", "waits", `{"cpuset-scheduler":null,"pinfold.dev/cpuset-scheduler":"true"}`, ""},
	} {
		for _, subresource := range [][]string{nil, {"status"}} {
			patch := fmt.Sprintf(`{"metadata":{"annotations":%s}}`, test.annotations)
			c.eventually(func() string { // the label of an earlier test may still be in effect
				err := c.tryPatch(test.pod, patch, true, subresource...)
				switch {
				case test.refused == "" && err != nil, test.refused != "" && !apierrors.IsForbidden(err),
					test.refused != "" && !strings.Contains(err.Error(), test.refused):
					return fmt.Sprintf("%s %v: got %v, want %q", test.name, subresource, err, test.refused)
				}
				return ""
			})
		}
	}
	// What a pod gave back is not its own again.
	c.must(c.tryPatch("asks", `{"metadata":{"annotations":{"cpuset-scheduler":null}}}`, false))
	err := c.tryPatch("asks", `{"metadata":{"annotations":{"cpuset-scheduler":"true"}}}`, false)
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), begins) {
		t.Errorf("asking again: %v", err)
	}
	c.create(asking("next", 6, "")) // 5 would be left for it
	c.allocation(c.bound("next"))
	c.checkBooks()
}
