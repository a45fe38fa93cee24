package api

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/must"
)

// runTranscript runs every case of a file in testdata: a line "=== title", a pod in short form, a
// line "---", and the result of answer for the pod.
func runTranscript(t *testing.T, path string, answer func(*corev1.Pod) string) {
	t.Helper()
	text := must.Get(os.ReadFile(path))(t)
	head, rest, _ := strings.Cut(string(text), "=== ")
	var out strings.Builder
	out.WriteString(head)
	for _, c := range strings.Split(rest, "\n=== ") {
		title, body, _ := strings.Cut(c, "\n")
		short, _, ok := strings.Cut(body, "---\n")
		if !ok {
			t.Fatalf("%s: case %q has no line ---", path, title)
		}
		got := strings.TrimRight(answer(readPod(t, title, short)), "\n")
		fmt.Fprintf(&out, "=== %s\n%s---\n%s\n\n", title, short, got)
	}
	golden.Compare(t, path, strings.TrimRight(out.String(), "\n")+"\n")
}

// shortPod parses a pod in short form. Containers are "name", "name limit" or "name request/limit";
// "-" stands for a missing value.
type shortPod struct {
	Annotations, Labels map[string]string
	Init                []string // sidecars end with "sidecar"
	Containers          []string
	Pod                 string // pod-level request/limit
	Overhead            string
	Batch               string // request for batch CPUs of the first container
	Node, Phase         string
	Allocated           map[string]string // container -> request in its status
}

func readPod(t *testing.T, title, text string) *corev1.Pod {
	t.Helper()
	var s shortPod
	if err := yaml.UnmarshalStrict([]byte(text), &s); err != nil {
		t.Fatalf("%s: %v", title, err)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "uid-1", Annotations: s.Annotations, Labels: s.Labels},
		Spec:       corev1.PodSpec{NodeName: s.Node},
		Status:     corev1.PodStatus{Phase: corev1.PodPhase(s.Phase)},
	}
	for _, c := range s.Init {
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, readContainer(c))
	}
	for _, c := range s.Containers {
		pod.Spec.Containers = append(pod.Spec.Containers, readContainer(c))
	}
	if s.Pod != "" {
		r := readResources(s.Pod)
		pod.Spec.Resources = &r
	}
	if s.Batch != "" {
		pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{BatchCPU: resource.MustParse(s.Batch)}
	}
	if s.Overhead != "" {
		pod.Spec.Overhead = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(s.Overhead)}
	}
	for name, request := range s.Allocated {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: name,
			AllocatedResources: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(request)}})
	}
	return pod
}

func readContainer(text string) corev1.Container {
	f := strings.Fields(text)
	c := corev1.Container{Name: f[0]}
	if len(f) > 1 && f[1] != "sidecar" {
		c.Resources = readResources(f[1])
	}
	if slices.Contains(f, "sidecar") {
		always := corev1.ContainerRestartPolicyAlways
		c.RestartPolicy = &always
	}
	return c
}

// readResources parses "request/limit", or one value for both, as the API server sets the request.
func readResources(text string) corev1.ResourceRequirements {
	request, limit, ok := strings.Cut(text, "/")
	if !ok {
		limit = request
	}
	var r corev1.ResourceRequirements
	if request != "-" {
		r.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(request)}
	}
	if limit != "-" {
		r.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(limit)}
	}
	return r
}
