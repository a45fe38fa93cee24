package node

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"pinfold.dev/pinfold/linux/schedtrace"
)

// canTrace reports whether the kernel lets the scheduler be traced.
func canTrace(t *testing.T) bool {
	t.Helper()
	tracer, err := schedtrace.Open(schedtrace.Options{})
	if errors.Is(err, errors.ErrUnsupported) {
		t.Log(err)
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	return tracer.Close() == nil
}

// eventuallyTraced lets a pod's container have more busy threads than there are CPUs, and checks
// that the agent traces how long they wait, by its own and more metrics that are above 0 then.
func (s *settled) eventuallyTraced(t *testing.T, pod *corev1.Pod, more ...string) {
	t.Helper()
	if !canTrace(t) {
		return
	}
	group := s.kernel.containerGroup(pod, "main")
	for range runtime.NumCPU() + 1 {
		defer s.kernel.spin(t, group)()
	}
	more = append(more, "pinfold_trace_running ", "pinfold_contention_running ",
		fmt.Sprintf("pinfold_container_cpu_waiting_seconds_total{behind=%q,container=%q,namespace=%q,pod=%q} ", "own", "main", pod.Namespace, pod.Name),
		fmt.Sprintf("pinfold_container_cpu_run_delay_seconds_count{container=%q,namespace=%q,pod=%q} ", "main", pod.Namespace, pod.Name))
	eventually(t, "traced delays", func() error {
		text := s.metrics(t)
		for _, name := range more {
			if _, value, found := strings.Cut(text, "\n"+name); !found || strings.HasPrefix(value, "0\n") {
				return fmt.Errorf("want %sabove 0 in\n%s", name, text)
			}
		}
		return nil
	})
}
