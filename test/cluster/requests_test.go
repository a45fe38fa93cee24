package cluster

import (
	"bytes"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/deploy/examples"
	"pinfold.dev/pinfold/kube/admission"
)

// goDemo returns a pod of the example go-demo, which requests 1 CPU and is limited to 4.
func (c *test) goDemo() *corev1.Pod {
	c.Helper()
	text, err := fs.ReadFile(examples.Files, "ack/go-demo.yaml")
	c.must(err)
	var deployment appsv1.Deployment
	c.must(yaml.UnmarshalStrict(text, &deployment))
	template := deployment.Spec.Template
	template.Spec.TerminationGracePeriodSeconds = new(int64)
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "go-demo", Annotations: template.Annotations}, Spec: template.Spec}
}

// raises reports whether the API server has MutatingAdmissionPolicies.
func (r *running) raises() bool { return r.kubernetes() != "1.34" && r.kubernetes() != "1.35" }

// TestRequests: the requests of containers that get exclusive CPUs are stored as their limits, but
// not in a namespace that keeps them, and not before Kubernetes 1.36, where there is a warning
// instead. The pod gets its CPUs in any case.
func TestRequests(t *testing.T) {
	c := begin(t)
	keeps, raises := c.newNamespace(map[string]string{admission.KeepRequestsLabel: "true"}), c.home
	var warnings bytes.Buffer
	config := rest.CopyConfig(c.config)
	config.WarningHandler = rest.NewWarningWriter(&warnings, rest.WarningWriterOptions{})
	client := c.as(config).client.CoreV1()
	for namespace, request := range map[string]string{keeps: "1", raises: "4"} {
		warnings.Reset()
		_, err := client.Pods(namespace).Create(c.Context(), c.goDemo(), metav1.CreateOptions{})
		c.must(err)
		const want = "container go-demo asks for 4 CPUs and requests 1: autoscalers and quotas count requests; write requests.cpu: 4"
		if warns := strings.Contains(warnings.String(), want); warns != (namespace == raises && !c.raises()) {
			t.Errorf("%s: warning %q", namespace, warnings.String())
		}
		if !c.raises() {
			request = "1"
		}
		pod := c.boundIn(namespace, "go-demo")
		if got := pod.Spec.Containers[0].Resources.Requests.Cpu().String(); got != request {
			t.Errorf("%s: a request of %s is stored, want %s", namespace, got, request)
		}
		if got := c.allocation(pod).Containers[0].CPUs.Len(); got != 4 {
			t.Errorf("%s: %d CPUs, want 4", namespace, got)
		}
	}
	if c.raises() {
		c.rejectsMore(raises)
	}
}

// rejectsMore bounds the requests of a namespace that has a pod of 4 CPUs to 7, and expects that a
// second one is rejected: the quota counts raised requests.
func (c *test) rejectsMore(namespace string) {
	c.Helper()
	quotas := c.client.CoreV1().ResourceQuotas(namespace)
	_, err := quotas.Create(c.Context(), &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "requests"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourceRequestsCPU: resource.MustParse("7")}}}, metav1.CreateOptions{})
	c.must(err)
	c.eventually("the quota is counted", func() error {
		quota, err := quotas.Get(c.Context(), "requests", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if used := quota.Status.Used[corev1.ResourceRequestsCPU]; used.Value() != 4 {
			return fmt.Errorf("it counts %s", used.String())
		}
		return nil
	})
	second := c.goDemo()
	second.Name = "second"
	_, err = c.client.CoreV1().Pods(namespace).Create(c.Context(), second, metav1.CreateOptions{})
	if err == nil || !strings.Contains(err.Error(), "exceeded quota: requests, requested: requests.cpu=4, used: requests.cpu=4, limited: requests.cpu=7") {
		c.Errorf("a second pod: %v", err)
	}
}
