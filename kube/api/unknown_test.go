package api

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestUnknown runs testdata/unknown.txt: pods and the sentences about their unknown keys.
func TestUnknown(t *testing.T) {
	runTranscript(t, "testdata/unknown.txt", func(pod *corev1.Pod) string {
		if all := Unknown(pod); len(all) > 0 {
			return strings.Join(all, "\n")
		}
		return "nothing"
	})
}

// Of a pod with very many annotations none is compared with those that are known.
func TestManyKeys(t *testing.T) {
	pod := boundPod()
	pod.Annotations = map[string]string{"cpu-polcy": ""}
	for len(pod.Annotations) < mostKeys {
		pod.Annotations[fmt.Sprint("key", len(pod.Annotations))] = ""
	}
	few := Unknown(pod)
	pod.Annotations["one-more"] = ""
	if many := Unknown(pod); len(few) != 1 || len(many) != 0 {
		t.Errorf("%q, and with one key more %q", few, many)
	}
}
