package scheduler

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pinfold.dev/pinfold/kube/api"
)

// A pod is refused exactly if its annotations would be too long with those of the Binding.
func TestAnnotationsThatExceed(t *testing.T) {
	const limit = 256 << 10
	filled := func(bytes int, more map[string]string) *corev1.Pod {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"x": ""}}}
		for key, value := range more {
			pod.Annotations[key] = value
			bytes -= len(key) + len(value)
		}
		pod.Annotations["x"] = strings.Repeat("x", bytes-1)
		return pod
	}
	added := map[string]string{api.SchedulerAnnotation: "lease and holder", api.AllocationAnnotation: "{}"}
	size := 0
	for key, value := range added {
		size += len(key) + len(value)
	}
	for _, test := range []struct {
		name    string
		pod     *corev1.Pod
		added   map[string]string
		exceeds int
	}{
		{"none", &corev1.Pod{}, added, 0},
		{"nothing is added", filled(limit, nil), nil, 0},
		{"as long as possible", filled(limit-size, nil), added, 0},
		{"too long by one", filled(limit-size+1, nil), added, limit + 1},
		{"a forged one is replaced", filled(limit, map[string]string{api.AllocationAnnotation: strings.Repeat("y", size)}), added, 0},
		{"a shorter one is replaced", filled(limit, map[string]string{api.SchedulerAnnotation: "lease and holde"}), map[string]string{api.SchedulerAnnotation: "lease and holder"}, limit + 1},
	} {
		want := ""
		if test.exceeds > 0 {
			want = fmt.Sprintf("the pod's annotations have %d bytes with those that the scheduler adds, and the API server accepts 262144: shorten them", test.exceeds)
		}
		if got := exceedsAnnotations(test.pod, test.added); got != want {
			t.Errorf("%s: %q, want %q", test.name, got, want)
		}
	}
}

// A pod whose allocation would make its annotations too long waits, and holds no CPU meanwhile.
func TestAllocationThatExceeds(t *testing.T) {
	s := newScenario(t, DefaultConfiguration)
	changes := s.play("node n1 cores=4", "report n1 cores=4", "pod long cpus=3 example.com/x="+strings.Repeat("x", 256<<10-200), "pod short cpus=3")
	if got := strings.Join(changes, "\n"); !strings.Contains(got, "1 has CPUs for the pod that cannot be recorded: the pod's annotations have 262") || !strings.Contains(got, "short on n1: static ") {
		t.Errorf("%.1000s", got)
	}
	s.run([]string{"edit", "long", "example.com/x-"})
	if got := strings.Join(s.play("delete short"), "\n"); !strings.Contains(got, "long on n1: static ") {
		t.Errorf("%.1000s", got)
	}
}
