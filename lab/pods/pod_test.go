package pods

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/experiment"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/test/must"
)

const ms = time.Millisecond

// TestPod checks what services become as pods, and what the kernel should have then.
func TestPod(t *testing.T) {
	limit := experiment.Amount{Value: 1}
	free := bandwidth.Limits{Quota: bandwidth.Unlimited, Period: 100 * ms}
	for _, test := range []struct {
		name        string
		service     experiment.Service
		annotations map[string]string
		batch       bool
		request     string
		limit       string
		kernel      bandwidth.Limits
	}{
		{"no settings", experiment.Service{}, map[string]string{}, false, "100m", "0", free},
		{"limit", experiment.Service{Limit: limit}, map[string]string{"pinfold.dev/cpu-burst": `{"policy":"none"}`},
			false, "100m", "1", bandwidth.Limits{Quota: 100 * ms, Period: 100 * ms}},
		{"a limit in thousandths", experiment.Service{Limit: experiment.Amount{Value: 2. / 3}, Burst: .5},
			map[string]string{"pinfold.dev/cpu-burst": `{"burstPercent":50,"policy":"burst"}`},
			false, "100m", "667m", bandwidth.Limits{Quota: 66700 * time.Microsecond, Period: 100 * ms, Burst: 33350 * time.Microsecond}},
		{"a small limit", experiment.Service{Limit: experiment.Amount{Value: .04}}, map[string]string{"pinfold.dev/cpu-burst": `{"policy":"none"}`},
			false, "40m", "40m", bandwidth.Limits{Quota: 4 * ms, Period: 100 * ms}},
		{"raised", experiment.Service{Limit: limit, Raise: true}, map[string]string{"pinfold.dev/cpu-burst": `{"policy":"quota"}`},
			false, "100m", "1", bandwidth.Limits{Quota: 100 * ms, Period: 100 * ms}},
		{"auto", experiment.Service{Limit: limit, Raise: true, Burst: 1}, map[string]string{"pinfold.dev/cpu-burst": `{"burstPercent":100,"policy":"auto"}`},
			false, "100m", "1", bandwidth.Limits{Quota: 100 * ms, Period: 100 * ms, Burst: 100 * ms}},
		{"period", experiment.Service{Limit: limit, Period: experiment.Duration{Duration: 10 * ms}},
			map[string]string{"pinfold.dev/cpu-burst": `{"policy":"none"}`, "pinfold.dev/cpu-period": "10ms"},
			false, "100m", "1", bandwidth.Limits{Quota: 10 * ms, Period: 10 * ms}},
		{"static", experiment.Service{Limit: limit, Policy: placement.Static},
			map[string]string{"pinfold.dev/cpu-burst": `{"policy":"none"}`, "pinfold.dev/cpuset-scheduler": "true", "pinfold.dev/cpu-policy": "static"},
			false, "100m", "1", free},
		{"static-burst", experiment.Service{Limit: limit, Policy: placement.StaticBurst},
			map[string]string{"pinfold.dev/cpu-burst": `{"policy":"none"}`, "pinfold.dev/cpuset-scheduler": "true", "pinfold.dev/cpu-policy": "static-burst"},
			false, "100m", "1", bandwidth.Limits{Quota: 100 * ms, Period: 100 * ms}},
		{"least", experiment.Service{Priority: experiment.Least}, map[string]string{}, false, "0", "0", free},
		{"idle", experiment.Service{Priority: experiment.Idle}, map[string]string{}, true, "0", "0", free},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := Spec{Name: "lab-1", Image: "image", Args: []string{"workload"}, Dir: "/tmp/site", Service: test.service}
			pod := must.Get(s.pod())(t)
			if diff := cmp.Diff(test.annotations, pod.Annotations); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
			r := pod.Spec.Containers[0].Resources
			if batch := pod.Labels["pinfold.dev/qos"] == "BE"; batch != test.batch || r.Requests.Cpu().String() != test.request || r.Limits.Cpu().String() != test.limit {
				t.Errorf("batch %t, requests %s, limits %s", batch, r.Requests.Cpu(), r.Limits.Cpu())
			}
			if got := s.limits(); got != test.kernel {
				t.Errorf("the kernel should have %+v, want %+v", got, test.kernel)
			}
			if missing := s.missing(s.limits(), 1, true); missing != "" {
				t.Errorf("missing although everything is in force: %s", missing)
			}
			if pod.Spec.Volumes[0].HostPath.Path != s.Dir || pod.Spec.Containers[0].VolumeMounts[0].MountPath != s.Dir {
				t.Errorf("volumes %+v", pod.Spec.Volumes)
			}
		})
	}
}

// TestMissing checks that each setting that is not in force is named.
func TestMissing(t *testing.T) {
	limit := experiment.Amount{Value: 1}
	wrong := bandwidth.Limits{Quota: 50 * ms, Period: 100 * ms}
	for _, test := range []struct {
		service experiment.Service
		found   bandwidth.Limits
		want    string
	}{
		{experiment.Service{Limit: limit}, wrong, "the quota 50ms per 100ms"},
		{experiment.Service{}, wrong, "the quota 50ms per 100ms"},
		{experiment.Service{Limit: limit, Burst: 1}, bandwidth.Limits{Quota: 100 * ms, Period: 100 * ms}, "the burst 0s instead of 100ms per 100ms and 100ms"},
		{experiment.Service{Limit: limit, Raise: true}, wrong, ""},
		{experiment.Service{Limit: limit, Raise: true}, bandwidth.Limits{Quota: bandwidth.Unlimited, Period: 100 * ms}, "the quota"},
		{experiment.Service{Limit: experiment.Amount{Value: 2}, Policy: placement.Static}, bandwidth.Limits{Quota: bandwidth.Unlimited}, "it has 1 CPUs instead of 2 of its own"},
		{experiment.Service{Priority: experiment.Idle}, bandwidth.Limits{Quota: bandwidth.Unlimited}, "--batch-priority=idle"},
	} {
		s := Spec{Service: test.service}
		if got := s.missing(test.found, 1, false); (test.want == "") != (got == "") || !strings.Contains(got, test.want) {
			t.Errorf("%+v: %q, want %q", test.service, got, test.want)
		}
	}
}

// TestUnsupported checks which services cannot be pods.
func TestUnsupported(t *testing.T) {
	for want, s := range map[string]experiment.Service{
		"":                      {Limit: experiment.Amount{Value: 1}, Burst: 1, Policy: placement.Static},
		"--batch-percent":       {Budget: .5},
		"without a policy":      {CPUs: experiment.Amount{Value: 1}},
		"BestEffort pod has no": {Priority: experiment.Idle, Limit: experiment.Amount{Value: 1}},
		"--batch-priority":      {Priority: experiment.CoreScheduling},
	} {
		if got := Unsupported(s); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%+v: %q, want %q", s, got, want)
		}
	}
}
