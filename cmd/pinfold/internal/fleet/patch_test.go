package fleet

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pinfold.dev/pinfold/core/verdict"
	"pinfold.dev/pinfold/test/must"
)

// TestPatches: what is sure and changes something has a patch, and names that Kubernetes does not have,
// have none.
func TestPatches(t *testing.T) {
	w := func(workload, container string, v verdict.Verdict) Workload {
		return Workload{"shop", workload, container, 2, v, .25}
	}
	guaranteed := Workload{"shop", "StatefulSet/whole", "app", 1, verdict.Verdict{Action: verdict.Raise, Limit: 1, Advised: 1.5}, 1}
	unknown, less := guaranteed, guaranteed
	unknown.Workload, unknown.request = "StatefulSet/unknown", 0
	less.Workload, less.request, less.Limit, less.Advised = "StatefulSet/less", .8, 1, .5
	burst, raise := verdict.Verdict{Action: verdict.Burst, Reason: "bursts", Advised: 1}, verdict.Verdict{Action: verdict.Raise, Reason: "more", Advised: 1.25}
	all := []Workload{
		w("Deployment/web", "app", burst), w("Deployment/web", "sidecar", raise),
		w("CronJob/report", "main", verdict.Verdict{Action: verdict.Lower, Reason: "less", Advised: .5}),
		w("StatefulSet/db", "db", verdict.Verdict{Action: verdict.Fine}),
		w("StatefulSet/db", "other", verdict.Verdict{Action: verdict.Raise, Low: 2}), // how much is not known
		w("DaemonSet/log", "log", verdict.Verdict{Action: verdict.Remove, Reason: "nobody waits"}),
		guaranteed, unknown, less,
		w("canary", "app", burst), w("Deployment/../../etc/x", "app", burst), w("Deployment/evil", "a\n# b", burst),
	}
	patches, left, err := Patches(all, &Request{At: time.Unix(1_800_000_000, 0)})
	must.Do(t, err)
	if got := slices.Sorted(maps.Keys(patches)); !slices.Equal(got, []string{"shop.cronjob.report.yaml", "shop.daemonset.log.yaml", "shop.deployment.web.yaml", "shop.statefulset.whole.yaml"}) || left != 3 {
		t.Fatalf("%v, and %d without", got, left)
	}
	want := `# app: bursts (2027-01-15).
# sidecar: more (2027-01-15).
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: shop
spec:
  template:
    metadata:
      annotations:
        pinfold.dev/cpu-burst: '{"policy":"burst","burstPercent":100}'
    spec:
      containers:
      - name: sidecar
        resources:
          limits:
            cpu: "1.25"
`
	if got := string(patches["shop.deployment.web.yaml"]); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if got := string(patches["shop.cronjob.report.yaml"]); !strings.Contains(got, "jobTemplate:\n    spec:\n      template:") || !strings.Contains(got, `cpu: "0.5"`) {
		t.Errorf("%s", got)
	}
	if got := string(patches["shop.daemonset.log.yaml"]); !strings.Contains(got, "cpu: null\n          requests:\n            cpu: \"0.25\"") || strings.Contains(got, "annotations") {
		t.Errorf("%s", got)
	}
	if got := string(patches["shop.statefulset.whole.yaml"]); strings.Count(got, `cpu: "1.5"`) != 2 {
		t.Errorf("not as large a request any more: %s", got)
	}
	dir := filepath.Join(t.TempDir(), "patches")
	must.Do(t, WritePatches(dir, patches))
	if got, err := os.ReadFile(filepath.Join(dir, "shop.deployment.web.yaml")); err != nil || string(got) != want {
		t.Errorf("%v: %s", err, got)
	}
	if err := WritePatches(dir, patches); err == nil || !strings.Contains(err.Error(), "it exists") {
		t.Errorf("%v", err)
	}
	if entries, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v: want one directory", entries, err)
	}
	if err := WritePatches(filepath.Join(dir, "no", "directory"), patches); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}
