package demo_test

import (
	"io/fs"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/deploy"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/test/must"
)

// TestExamples checks that the examples can be applied together: pods of different names that run
// on any node. There is one for each annotation that users write, and all are in the README.
func TestExamples(t *testing.T) {
	readme := must.Get(os.ReadFile("../../deploy/examples/README.md"))(t)
	files, err := fs.Glob(deploy.Examples(), "*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	named := map[string]string{}
	for _, file := range files {
		if !strings.Contains(string(readme), "]("+file+")") {
			t.Errorf("the README does not mention %s", file)
		}
		text := must.Get(fs.ReadFile(deploy.Examples(), file))(t)
		for _, document := range strings.Split(string(text), "\n---\n") {
			var pod corev1.Pod
			if err := yaml.UnmarshalStrict([]byte(document), &pod); err != nil || pod.Kind != "Pod" {
				t.Fatalf("%s: a %s: %v", file, pod.Kind, err)
			}
			if other, ok := named[pod.Name]; ok {
				t.Errorf("%s and %s overwrite each other's pod %s", file, other, pod.Name)
			}
			named[pod.Name] = file
			if len(pod.Spec.NodeSelector) > 0 {
				t.Errorf("%s selects %v", file, pod.Spec.NodeSelector)
			}
		}
	}
	for _, key := range []string{api.CPUSetSchedulerAnnotation, api.CPUPolicyAnnotation, api.FullCoresAnnotation, api.QoSLabel, api.CPUBurstAnnotation, api.CPUPeriodAnnotation} {
		file := strings.TrimPrefix(key, "pinfold.dev/") + ".yaml"
		if text, err := fs.ReadFile(deploy.Examples(), file); err != nil || !strings.Contains(string(text), key+":") {
			t.Errorf("there is no example of %s (%v)", key, err)
		}
	}
}
