package cluster

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/kube/admission"
)

// tryPatch changes a pod, or only tries to with a dry run, and returns the API server's answer.
func (c *test) tryPatch(pod, patch string, trial bool, subresource ...string) error {
	options := metav1.PatchOptions{}
	if trial {
		options.DryRun = []string{metav1.DryRunAll}
	}
	_, err := c.podAPI().Patch(c.Context(), pod, types.MergePatchType, []byte(patch), options, subresource...)
	return err
}

// TestAdmission: a bound pod cannot begin to ask for CPUs, for which its node was not chosen. Whatever
// else is written to its annotations is accepted: it decides nothing.
func TestAdmission(t *testing.T) {
	c := begin(t)
	c.create(asking("asks", 2, ""))
	c.allocation(c.bound("asks"))
	c.create(`
metadata: {name: plain, annotations: {cpu-policy: none}}
spec:
  nodeSelector: {kubernetes.io/hostname: ` + small1 + `}
  containers: [{name: app, image: app, resources: {limits: {cpu: 1}}}]
`)
	c.bound("plain")
	c.create(asking("waits", 200, ""))
	c.waits("waits", "CPUs")
	const begins = "cannot begin to ask for CPUs"
	for _, test := range []struct {
		name, pod, annotations string
		refused                bool
	}{
		{"begins to ask", "plain", `{"cpuset-scheduler":"true","cpu-policy":null}`, true},
		{"begins to ask, prefixed", "plain", `{"pinfold.dev/cpuset-scheduler":"true","cpu-policy":"static"}`, true},
		{"an annotation without effect", "plain", `{"cpuset-scheduler":"true"}`, false},
		{"an allocation", "plain", `{"pinfold.dev/cpu-allocation":"x"}`, false},
		{"all annotations removed", "asks", `null`, false},
		{"ceases to ask", "asks", `{"cpuset-scheduler":null}`, false},
		{"ceases to ask by the policy", "asks", `{"cpu-policy":"none"}`, false},
		{"begins to ask while it waits", "waits", `{"cpuset-scheduler":null,"pinfold.dev/cpuset-scheduler":"true"}`, false},
	} {
		for _, subresource := range [][]string{nil, {"status"}} {
			err := c.tryPatch(test.pod, fmt.Sprintf(`{"metadata":{"annotations":%s}}`, test.annotations), true, subresource...)
			if !test.refused && err != nil || test.refused && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), begins)) {
				t.Errorf("%s %v: got %v", test.name, subresource, err)
			}
		}
	}
	// A pod cannot reclaim CPUs that it gave back.
	c.must(c.tryPatch("asks", `{"metadata":{"annotations":{"cpuset-scheduler":null}}}`, false))
	err := c.tryPatch("asks", `{"metadata":{"annotations":{"cpuset-scheduler":"true"}}}`, false)
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), begins) {
		t.Errorf("asking again: %v", err)
	}
	c.create(asking("next", 6, "")) // 5 would be left
	c.allocation(c.bound("next"))

	// For repairs, an administrator can switch the policy off. Then a pod gets CPUs if some are free.
	const asks = `{"metadata":{"annotations":{"cpuset-scheduler":"true","cpu-policy":null}}}`
	label := fmt.Appendf(nil, `{"metadata":{"labels":{%q:"true"}}}`, admission.UnprotectedLabel)
	_, err = c.client.CoreV1().Namespaces().Patch(c.Context(), c.home, types.MergePatchType, label, metav1.PatchOptions{})
	c.must(err)
	c.eventually("pod plain may ask", func() error { return c.tryPatch("plain", asks, false) })
	c.checkBooks()
}

// TestResourceQuota: a quota on limits.cpu bounds the exclusive CPUs of a namespace. Where requests
// are kept, a quota on requests.cpu does not, because a container gets the number in its limit.
func TestResourceQuota(t *testing.T) {
	c := begin(t)
	bounded := c.newNamespace(map[string]string{admission.KeepRequestsLabel: "true"})
	for name, hard := range map[string]corev1.ResourceList{
		"limits":   {corev1.ResourceLimitsCPU: resource.MustParse("3")},
		"requests": {corev1.ResourceRequestsCPU: resource.MustParse("3")},
	} {
		quotas := c.client.CoreV1().ResourceQuotas(bounded)
		_, err := quotas.Create(c.Context(), &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.ResourceQuotaSpec{Hard: hard}}, metav1.CreateOptions{})
		c.must(err)
		c.eventually("the quota "+name+" is counted", func() error {
			quota, err := quotas.Get(c.Context(), name, metav1.GetOptions{})
			if err == nil && len(quota.Status.Used) == 0 {
				err = errors.New("not yet")
			}
			return err
		})
	}
	try := func(name, limit string) error {
		_, err := c.client.CoreV1().Pods(bounded).Create(c.Context(), c.parse(`
metadata: {name: `+name+`, annotations: {cpuset-scheduler: "true"}}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: app, image: app, resources: {requests: {cpu: 10m}, limits: {cpu: `+limit+`}}}]`), metav1.CreateOptions{})
		return err
	}
	c.must(try("fits", "2"))
	fits := c.boundIn(bounded, "fits")
	if got := c.allocation(fits).Containers[0].CPUs.Len(); got != 2 {
		t.Errorf("a limit of 2 CPUs and a request of 10m give %d exclusive CPUs", got)
	}
	err := try("exceeds", "2")
	if err == nil || !strings.Contains(err.Error(), "exceeded quota: limits, requested: limits.cpu=2, used: limits.cpu=2, limited: limits.cpu=3") {
		t.Errorf("two more CPUs: %v", err)
	}
}
