package cluster

import (
	"regexp"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/core/advice"
	"pinfold.dev/pinfold/core/burst"
	"pinfold.dev/pinfold/kube/api"
	show "pinfold.dev/pinfold/report/advice"
)

const advised = `
metadata: {name: advised}
spec:
  selector: {matchLabels: {app: advised}}
  template:
    metadata: {labels: {app: advised}, annotations: {kept: "yes"}}
    spec:
      nodeSelector: {kubernetes.io/hostname: ` + small0 + `}
      containers:
      - {name: proxy, image: proxy, resources: {requests: {cpu: 10m}, limits: {cpu: 1}}}
      - {name: app, image: app, resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {cpu: 2, memory: 64Mi}}}
      - {name: other, image: other, resources: {requests: {cpu: 100m}, limits: {cpu: 100m}}}
`

// adviceFor returns the output of 'pinfold advise -o patch' for a pod with the containers app and
// proxy.
func adviceFor(t *testing.T, namespace, pod string) string {
	t.Helper()
	limit := func(container string, cpus float64) show.Container {
		return show.Container{File: "web.parquet", Container: advice.Container{Name: namespace + "/" + pod + "/" + container,
			LimitWithBurst: advice.Limit{Finding: advice.Finding{Enough: true, Reason: "it's so: {}"}, LimitCPUs: cpus, BurstPercent: 50}}}
	}
	r := &show.Report{Goal: advice.Goal{ThrottleRatio: .01, Burst: .5, ProbabilityWCET1: .99}, Containers: []show.Container{limit("app", 1.27), limit("proxy", .03)}}
	var out strings.Builder
	if pods, left, err := r.Patches(&out); err != nil || pods != 1 || len(left) > 0 {
		t.Fatalf("%d patches, %q left out, error %v", pods, left, err)
	}
	return out.String()
}

// checkAdvised checks a pod to which the advice was applied.
func checkAdvised(t *testing.T, meta metav1.ObjectMeta, spec corev1.PodSpec) {
	t.Helper()
	want := map[string]string{"app": "1270m", "proxy": "30m", "other": "100m"}
	for _, container := range spec.Containers {
		if got := container.Resources.Limits.Cpu().String(); got != want[container.Name] {
			t.Errorf("container %s has a limit of %s, want %s", container.Name, got, want[container.Name])
		}
		if container.Name == "app" && container.Resources.Limits.Memory().String() != "64Mi" {
			t.Error("the memory limit is missing")
		}
	}
	if len(spec.Containers) != len(want) {
		t.Errorf("there are %d containers, want %d", len(spec.Containers), len(want))
	}
	intent, err := api.Parse(&corev1.Pod{ObjectMeta: meta, Spec: spec})
	if err != nil || len(intent.Warnings) > 0 {
		t.Fatalf("the advised pod: %v, %q", err, intent.Warnings)
	}
	if want := (burst.Policy{Mode: burst.Kernel, BurstPercent: 50}); intent.Burst != want {
		t.Errorf("the burst is %+v, want %+v", intent.Burst, want)
	}
}

// TestAdvicePatch: the API server accepts the patches of 'pinfold advise' for the workload and for
// the running pod, and they change only limits and burst.
func TestAdvicePatch(t *testing.T) {
	c := begin(t)
	var deployment appsv1.Deployment
	c.must(yaml.UnmarshalStrict([]byte(advised), &deployment))
	_, err := c.client.AppsV1().Deployments(c.home).Create(c.Context(), &deployment, metav1.CreateOptions{})
	c.must(err)
	patch, err := yaml.YAMLToJSON([]byte(adviceFor(t, c.home, "advised-1")))
	c.must(err)
	patched, err := c.client.AppsV1().Deployments(c.home).Patch(c.Context(), "advised", types.StrategicMergePatchType, patch, metav1.PatchOptions{FieldValidation: "Strict"})
	c.must(err)
	checkAdvised(t, patched.Spec.Template.ObjectMeta, patched.Spec.Template.Spec)
	if patched.Spec.Template.Annotations["kept"] != "yes" {
		t.Error("another annotation is missing")
	}

	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "alone"}, Spec: deployment.Spec.Template.Spec}
	_, err = c.podAPI().Create(c.Context(), &pod, metav1.CreateOptions{})
	c.must(err)
	c.bound("alone")
	c.runs("alone")
	resizes, key, value := commands(t, c.home, adviceFor(t, c.home, "alone"))
	c.annotate("alone", key, value)
	for _, resize := range resizes {
		_, err = c.podAPI().Patch(c.Context(), "alone", types.StrategicMergePatchType, []byte(resize), metav1.PatchOptions{}, "resize")
		c.must(err)
	}
	resized := c.pod("alone")
	checkAdvised(t, resized.ObjectMeta, resized.Spec)
}

// commands extracts the commands for a running pod from the comments.
func commands(t *testing.T, namespace, text string) (resizes []string, key, value string) {
	t.Helper()
	patch := regexp.MustCompile(`(?m)^#   kubectl -n ` + namespace + ` patch pod alone --subresource resize --patch '([^']*)'$`)
	annotate := regexp.MustCompile(`(?m)^#   kubectl -n ` + namespace + ` annotate pod alone --overwrite ([^ =']*)='([^']*)'$`).FindStringSubmatch(text)
	for _, found := range patch.FindAllStringSubmatch(text, -1) {
		resizes = append(resizes, found[1])
	}
	if len(resizes) != 2 || annotate == nil {
		t.Fatalf("a command is missing:\n%s", text)
	}
	return resizes, annotate[1], annotate[2]
}
