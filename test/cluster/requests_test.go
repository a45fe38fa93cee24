package cluster

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
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

// requestsOf returns the CPU requests of a pod's containers, and of the pod as a whole under "".
func requestsOf(pod *corev1.Pod) map[string]string {
	requests := map[string]string{}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			requests[list[i].Name] = list[i].Resources.Requests.Cpu().String()
		}
	}
	if pod.Spec.Resources != nil {
		requests[""] = pod.Spec.Resources.Requests.Cpu().String()
	}
	return requests
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
		if got := requestsOf(pod)["go-demo"]; got != request {
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

// TestStoredRequests shows what the API server stores.
func TestStoredRequests(t *testing.T) {
	c := begin(t)
	if !c.raises() {
		t.Skip("the API server has no MutatingAdmissionPolicies before Kubernetes 1.36")
	}
	const asks, app = `{cpuset-scheduler: "true"}`, `{name: app, image: app, resources: {requests: {cpu: 1}, limits: {cpu: 4}}}`
	for name, test := range map[string]struct {
		annotations, spec string
		want              map[string]string
	}{
		"does not ask":      {`{}`, `containers: [` + app + `]`, map[string]string{"app": "1"}},
		"policy none":       {`{cpuset-scheduler: "true", cpu-policy: none}`, `containers: [` + app + `]`, map[string]string{"app": "1"}},
		"static-burst":      {`{cpuset-scheduler: "true", cpu-policy: static-burst}`, `containers: [` + app + `]`, map[string]string{"app": "1"}},
		"prefixed":          {`{pinfold.dev/cpuset-scheduler: "true", pinfold.dev/cpu-policy: static}`, `containers: [` + app + `]`, map[string]string{"app": "4"}},
		"another scheduler": {asks, `{schedulerName: other, containers: [` + app + `]}`, map[string]string{"app": "4"}},
		"with a node":       {asks, `{nodeName: ` + small0 + `, containers: [` + app + `]}`, map[string]string{"app": "4"}},
		"forms of whole numbers, duplicate variables": {asks, `containers:
- {name: a, image: app, resources: {requests: {cpu: 1}, limits: {cpu: 4000m}}, env: [{name: X, value: a}, {name: X, value: b}]}
- {name: b, image: app, resources: {requests: {cpu: 1}, limits: {cpu: "4.0"}}}
- {name: c, image: app, resources: {requests: {cpu: 1}, limits: {cpu: 4e0}}}
- {name: d, image: app, resources: {requests: {cpu: 1}, limits: {cpu: 2500m}}}
- {name: e, image: app, resources: {requests: {cpu: 1}}}
- {name: f, image: app, resources: {limits: {cpu: 2}}}
`, map[string]string{"a": "4", "b": "4", "c": "4", "d": "1", "e": "1", "f": "2"}},
		"init container and sidecar": {asks, `{initContainers: [{name: init, image: app, resources: {requests: {cpu: 10m}, limits: {cpu: 2}}},
  {name: side, image: app, restartPolicy: Always, resources: {requests: {cpu: 10m}, limits: {cpu: 1}}}], containers: [` + app + `]}`,
			map[string]string{"init": "2", "side": "1", "app": "4"}},
		"own request": {asks, `{resources: {requests: {cpu: 2}}, containers: [` + app + `]}`, map[string]string{"app": "4", "": "4"}},
		"own limit":   {asks, `{resources: {limits: {cpu: 5}}, containers: [` + app + `]}`, map[string]string{"app": "4", "": "4"}},
		"own limit without room": {asks, `{resources: {limits: {cpu: 4}}, containers: [` + app + `, {name: b, image: app, resources: {requests: {cpu: 1}}}]}`,
			map[string]string{"app": "1", "b": "1", "": "2"}},
	} {
		var pod corev1.Pod
		c.must(yaml.Unmarshal([]byte("{metadata: {generateName: p-, annotations: "+test.annotations+"}}"), &pod))
		c.must(yaml.UnmarshalStrict([]byte(test.spec), &pod.Spec))
		stored, err := c.podAPI().Create(c.Context(), &pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if got := requestsOf(stored); !maps.Equal(got, test.want) {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
}
