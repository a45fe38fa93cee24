package throttling

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/lab/load"
	"pinfold.dev/pinfold/linux/kubepods"
)

// running returns a pod as the kubelet reports it.
func running() *corev1.Pod {
	limited := corev1.Container{Name: "web", Ports: []corev1.ContainerPort{{ContainerPort: 8080}}}
	limited.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m")}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "shop", UID: "u1"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{limited, {Name: "side"}}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, QOSClass: corev1.PodQOSBurstable, PodIP: "10.213.0.9",
			ContainerStatuses: []corev1.ContainerStatus{{Name: "side", ContainerID: "containerd://c2"}, {Name: "web", ContainerID: "containerd://c1"}},
		},
	}
}

func TestOfPod(t *testing.T) {
	const ms = time.Millisecond
	plain := Target{
		Name: "shop", URL: "http://10.213.0.9:8080/", Limit: bandwidth.Limits{Quota: 25 * ms, Period: 100 * ms},
		Groups: []string{"/kubepods/burstable/podu1/c1", "/kubepods/burstable/podu1"},
	}
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		want   func(*Target) // nil for an error
	}{
		"as it is": {func(*corev1.Pod) {}, func(*Target) {}},
		"no port":  {func(p *corev1.Pod) { p.Spec.Containers[0].Ports = nil }, func(w *Target) { w.URL = "http://10.213.0.9:80/" }},
		"no limit": {func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Limits = nil }, func(w *Target) { w.Limit.Quota = bandwidth.Unlimited }},
		"guaranteed": {func(p *corev1.Pod) { p.Status.QOSClass = corev1.PodQOSGuaranteed },
			func(w *Target) { w.Groups = []string{"/kubepods/podu1/c1", "/kubepods/podu1"} }},
		"IPv6": {func(p *corev1.Pod) { p.Status.PodIP = "fd00::9" }, func(w *Target) { w.URL = "http://[fd00::9]:8080/" }},
		"static pod": {func(p *corev1.Pod) { p.Annotations = map[string]string{"kubernetes.io/config.hash": "h1"} },
			func(w *Target) { w.Groups = []string{"/kubepods/burstable/podh1/c1", "/kubepods/burstable/podh1"} }},
		"pending":    {func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }, nil},
		"no address": {func(p *corev1.Pod) { p.Status.PodIP = "" }, nil},
		"no id":      {func(p *corev1.Pod) { p.Status.ContainerStatuses[1].ContainerID = "" }, nil},
	} {
		pod := running()
		test.change(pod)
		got, err := OfPod(kubepods.Naming{Driver: kubepods.Cgroupfs}, pod)
		if (err == nil) != (test.want != nil) {
			t.Errorf("%s: error %v", name, err)
		}
		if err != nil {
			continue
		}
		want := plain
		test.want(&want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestMeasureAll measures two servers at once. Each gets the whole plan, and requests have the CPU
// time in addition to the other query parameters of the URL.
func TestMeasureAll(t *testing.T) {
	var asked [2]atomic.Int64
	var targets []Target
	for i := range asked {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.RawQuery == "cpu=2.5ms&page=1" {
				asked[i].Add(1)
			}
			w.WriteHeader(http.StatusOK)
		}))
		defer server.Close()
		target, err := Target{Name: "server", URL: server.URL + "/?page=1&cpu=7s"}.Asking(2500 * time.Microsecond)
		if err != nil {
			t.Fatal(err)
		}
		targets = append(targets, target)
	}
	plan := load.Plan{Batch: 2, Every: 20 * time.Millisecond, Duration: 100 * time.Millisecond, Timeout: time.Minute}
	rows, err := MeasureAll(t.Context(), nil, targets, plan)
	if err != nil || len(rows) != 2 {
		t.Fatal(rows, err)
	}
	for i, row := range rows {
		if row.Load.Sent != 10 || len(row.Load.Latencies) != 10 || asked[i].Load() != 10 || row.Wall < plan.Duration {
			t.Errorf("server %d: %d requests, row %+v", i, asked[i].Load(), row)
		}
	}
	if _, err := MeasureAll(t.Context(), nil, []Target{{Name: "far", URL: "http://192.0.2.1/"}}, plan); err == nil {
		t.Error("requests were sent to a public address")
	}
}
