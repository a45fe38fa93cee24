package api

import (
	"encoding/json"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"pinfold.dev/pinfold/test/must"
)

// remedy is what an author of a pod does who reads a message that matches.
type remedy struct {
	message *regexp.Regexp
	do      func(t *testing.T, pod *corev1.Pod, match []string)
}

func remedies() []remedy {
	set := func(_ *testing.T, pod *corev1.Pod, m []string) { settings(pod, m[1])[m[2]] = m[3] }
	return []remedy{
		{regexp.MustCompile(`^(annotation) (\S+): policy ".*": it must be "([^"]+)"`), func(_ *testing.T, pod *corev1.Pod, m []string) {
			pod.Annotations[m[2]] = `{"policy":"` + m[3] + `"}`
		}},
		{regexp.MustCompile(`^(annotation|label) (\S+): .*it must be "([^"]+)"`), set},
		{regexp.MustCompile(`^(annotation) (\S+): .*it must be JSON such as (\{.*\})$`), set},
		{regexp.MustCompile(`^(annotation) (\S+): .*it must be a duration from .*, such as "(.*)"$`), set},
		{regexp.MustCompile(`^annotation (\S+): "(.*)": it must be a whole number of microseconds`), func(t *testing.T, pod *corev1.Pod, m []string) {
			pod.Annotations[m[1]] = must.Get(time.ParseDuration(m[2]))(t).Truncate(time.Microsecond).String()
		}},
		{regexp.MustCompile(`^annotation (\S+): (.*: it must be \d.*|\w+: it must not be a JSON string)$`), func(t *testing.T, pod *corev1.Pod, m []string) {
			fields := map[string]any{}
			must.Do(t, json.Unmarshal([]byte(pod.Annotations[m[1]]), &fields))
			for _, field := range regexp.MustCompile(`(\w+)[^:]*: it must (?:be (\d+)|not be)`).FindAllStringSubmatch(m[2], -1) {
				fields[field[1]], _ = strconv.Atoi(field[2])
				if field[2] == "" {
					fields[field[1]] = 100
				}
			}
			pod.Annotations[m[1]] = string(must.Get(json.Marshal(fields))(t))
		}},
		{regexp.MustCompile(` and (annotation|label) (\S+): .* contradict each other: .*remove one of`), func(_ *testing.T, pod *corev1.Pod, m []string) {
			delete(settings(pod, m[1]), m[2])
		}},
		{regexp.MustCompile(`: give it to at least one$`), func(_ *testing.T, pod *corev1.Pod, _ []string) {
			limit(&pod.Spec.Containers[0], "2")
		}},
		{regexp.MustCompile(`limits.cpu of container (\S+) is .*: lower it$`), func(_ *testing.T, pod *corev1.Pod, m []string) {
			for i := range pod.Spec.Containers {
				if c := &pod.Spec.Containers[i]; c.Name == m[1] {
					limit(c, "2")
				}
			}
		}},
		{regexp.MustCompile(`the pod's own limits.cpu is \d+: raise it to (\d+) or`), func(_ *testing.T, pod *corev1.Pod, m []string) {
			pod.Spec.Resources.Limits[corev1.ResourceCPU] = resource.MustParse(m[1])
		}},
		{regexp.MustCompile(`^annotation (\S+): (?:duplicate|unknown) field`), func(_ *testing.T, pod *corev1.Pod, m []string) {
			pod.Annotations[m[1]] = `{"policy":"auto"}`
		}},
	}
}

func settings(pod *corev1.Pod, kind string) map[string]string {
	if kind == "label" {
		return pod.Labels
	}
	return pod.Annotations
}

func limit(c *corev1.Container, cpus string) {
	c.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpus)}
}

// TestRemedies does what the messages about invalid pods say, and the pod is valid then. A message that
// fits no entry above fails.
func TestRemedies(t *testing.T) {
	_, cases, _ := strings.Cut(string(must.Get(os.ReadFile("testdata/parse-errors.txt"))(t)), "=== ")
	for c := range strings.SplitSeq(cases, "\n=== ") {
		title, body, _ := strings.Cut(c, "\n")
		short, _, _ := strings.Cut(body, "---\n")
		pod := readPod(t, title, short)
		_, err := Parse(pod)
		for step := 0; err != nil; step++ {
			if before := err.Error(); !follow(t, pod, before) || step == 3 {
				t.Errorf("%s: no test does what this says, or it does not help: %v", title, err)
				break
			}
			_, err = Parse(pod)
		}
	}
}

// follow does what a message says, and reports whether that is known.
func follow(t *testing.T, pod *corev1.Pod, message string) bool {
	for _, r := range remedies() {
		if m := r.message.FindStringSubmatch(message); m != nil {
			r.do(t, pod, m)
			return true
		}
	}
	return false
}
