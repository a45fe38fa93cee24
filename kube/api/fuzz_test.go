package api

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pinfold.dev/pinfold/core/bandwidth"
)

func FuzzDecodeAllocation(f *testing.F) {
	for _, seed := range []string{
		`{"version":1,"node":"n1","policy":"static","containers":[{"name":"app","cpus":"0-3","numaNodes":[0]}]}`,
		`{"version":1,"node":"n1","policy":"static-burst","containers":[{"name":"app","numaNodes":[-1,1]}]}`,
		`{"version":1,"node":"n1","policy":"static","containers":[{"name":"app","cpus":"0-`,
		`null`, `[]`, ``,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := DecodeAllocation(text)
		if err != nil {
			return
		}
		again, err := DecodeAllocation(a.Encode())
		if err != nil || again.Encode() != a.Encode() {
			t.Fatalf("%q was read as %s, which is read as %s, %v", text, a.Encode(), again.Encode(), err)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add("true", "static", "required", `{"policy":"auto","burstPercent":200}`, `{"policy":"cpuBurstOnly"}`, "20ms", "LS")
	f.Add("yes", "none", "", `{`, `{}`, "1500001ns", "BE")
	f.Fuzz(func(t *testing.T, asks, policy, full, burst, foreignBurst, period, qos string) {
		pod := readPod(t, "fuzz", "containers: [a 2, b 500m]")
		pod.ObjectMeta = metav1.ObjectMeta{
			Annotations: map[string]string{"cpuset-scheduler": asks, "cpu-policy": policy, FullCoresAnnotation: full,
				CPUBurstAnnotation: burst, "koordinator.sh/cpuBurst": foreignBurst, CPUPeriodAnnotation: period},
			Labels: map[string]string{QoSLabel: qos},
		}
		intent, err := Parse(pod)
		if err != nil {
			if text := err.Error(); !strings.HasPrefix(text, "annotation ") && !strings.HasPrefix(text, "label ") {
				t.Fatalf("the error names no setting: %s", text)
			}
			return
		}
		if (asks == "true" && policy != string(PolicyNone)) != intent.Asks() {
			t.Fatalf("asks %q, policy %q: %+v", asks, policy, intent)
		}
		if p := intent.Period; p != 0 && (p < bandwidth.MinPeriod || p > bandwidth.MaxPeriod) {
			t.Fatalf("period %v", p)
		}
	})
}
