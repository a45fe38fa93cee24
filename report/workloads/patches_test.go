package workloads

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/core/counters"
	"pinfold.dev/pinfold/test/must"
)

func row(namespace, kind, name, container string, v counters.Verdict) Row {
	v.Reason = "throttled"
	return Row{Namespace: namespace, Kind: kind, Name: name, Container: container, Verdict: v}
}

func to(cpus float64, sure bool) *counters.Change {
	return &counters.Change{To: cpus, Sure: sure, Reason: "because"}
}

// example has containers with all changes, with changes that are not made, and with names that no
// object can have.
func example() *Report {
	excluded := row("shop", "Deployment", "own", "app", counters.Verdict{Limit: 1, Burst: true})
	excluded.Excluded = true
	return &Report{Rows: []Row{
		excluded,
		row("shop", "Deployment", "web", "app", counters.Verdict{Limit: 1, Request: 1, Burst: true, NewLimit: to(2.6, true)}),
		row("shop", "Deployment", "web", "proxy", counters.Verdict{Limit: 1, Request: 1, NewRequest: to(.1, true)}),
		row("shop", "Deployment", "web", "istio-proxy", counters.Verdict{Limit: 2, Request: .1, NewRequest: to(.2, true)}),
		row("shop", "Deployment", "calm", "app", counters.Verdict{Limit: 1, Request: .3}),
		row("shop", "StatefulSet", "db", "db", counters.Verdict{Limit: 2, Request: 2, NewLimit: to(.9, true)}),
		row("shop", "StatefulSet", "db", "unsure", counters.Verdict{Limit: 2, Request: 2, NewRequest: to(1, false)}),
		row("batch", "CronJob", "report", "main", counters.Verdict{Request: 2, NewRequest: to(.5, true)}),
		row("kube-system", "Pod", "etcd-n1", "etcd", counters.Verdict{Request: .2, NewRequest: to(.1, true)}),
		row("../shop", "Deployment", "web", "app", counters.Verdict{Limit: 1, Burst: true}),
		row("shop", "Deployment", "hostile", "a\nb: c", counters.Verdict{Limit: 1, Burst: true}),
	}}
}

func TestPatches(t *testing.T) {
	files, left, err := example().Patches(Choice{Burst: true, Limit: true, Request: true, MaxFactor: 10})
	must.Do(t, err)
	if d := cmp.Diff([]string{"batch/cronjob-report.yaml", "kustomization.yaml", "shop/deployment-web.yaml"}, slices.Sorted(maps.Keys(files))); d != "" {
		t.Error(d)
	}
	wantLeft := []string{
		"../shop/web is left out: Kubernetes would not accept its name, or that of a container",
		"kube-system/etcd-n1 is left out: it is a Pod, whose containers no patch can change",
		"shop/db/db is left as it is: its request of 2 CPUs would be above its new limit of 0.9 CPUs",
		"shop/db/unsure is left as it is: a request of 1 CPU is not sure",
		"shop/hostile is left out: Kubernetes would not accept its name, or that of a container",
		"shop/own is left out: it is excluded by a label",
		"shop/web/istio-proxy is left as it is: it is added to pods when they are created, and no pod template has it",
	}
	if d := cmp.Diff(wantLeft, left); d != "" {
		t.Error(d)
	}
	if text := string(files["shop/deployment-web.yaml"]); !strings.HasPrefix(text, "# app: throttled.\n# app: because.\n# app: its requests will no longer equal its limits") {
		t.Error(text)
	}
	if d := cmp.Diff("apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\npatches:\n- path: batch/cronjob-report.yaml\n- path: shop/deployment-web.yaml\n", string(files["kustomization.yaml"])); d != "" {
		t.Error(d)
	}

	web := appsv1.Deployment{}
	web.Spec.Template.Annotations = map[string]string{"own": "kept"}
	cpu := func(limit, request string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{
			Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(limit), corev1.ResourceMemory: resource.MustParse("1Gi")},
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(request)}}
	}
	web.Spec.Template.Spec.Containers = []corev1.Container{{Name: "proxy", Image: "p", Resources: cpu("1", "1")}, {Name: "app", Image: "a", Resources: cpu("1", "1")}}
	patched := apply(t, web, files["shop/deployment-web.yaml"])
	want := web.DeepCopy()
	want.APIVersion, want.Kind, want.Name, want.Namespace = "apps/v1", "Deployment", "web", "shop"
	want.Spec.Template.Annotations["pinfold.dev/cpu-burst"] = `{"policy":"auto"}`
	for i := range want.Spec.Template.Spec.Containers {
		if c := &want.Spec.Template.Spec.Containers[i]; c.Name == "app" {
			c.Resources = cpu("2600m", "1")
		} else {
			c.Resources = cpu("1", "100m")
		}
	}
	sorted := func(d *appsv1.Deployment) *appsv1.Deployment {
		slices.SortFunc(d.Spec.Template.Spec.Containers, func(a, b corev1.Container) int { return strings.Compare(a.Name, b.Name) })
		return d
	}
	if d := cmp.Diff(sorted(want), sorted(&patched)); d != "" {
		t.Error(d)
	}
	job := batchv1.CronJob{}
	job.Spec.JobTemplate.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main"}}
	requests := apply(t, job, files["batch/cronjob-report.yaml"]).Spec.JobTemplate.Spec.Template.Spec.Containers[0].Resources.Requests
	if got := requests.Cpu().String(); got != "500m" {
		t.Errorf("the job requests %s", got)
	}
}

// TestPatchChoice checks that only what was chosen changes, and nothing by more than allowed.
func TestPatchChoice(t *testing.T) {
	for want, c := range map[string]Choice{
		"shop/deployment-web.yaml: burst":                        {Burst: true, MaxFactor: 2},
		"batch/cronjob-report.yaml: requests":                    {Request: true, MaxFactor: 4},
		"shop/deployment-web.yaml: limits":                       {Limit: true, MaxFactor: 4},
		"shop/deployment-web.yaml: burst requests limits batch/": {Burst: true, Limit: true, Request: true, MaxFactor: 10},
		"": {Limit: true, Request: true, MaxFactor: 2},
	} {
		files, _, err := example().Patches(c)
		must.Do(t, err)
		file, words, _ := strings.Cut(want, ": ")
		text := ""
		for _, name := range slices.Sorted(maps.Keys(files)) {
			text += name + string(files[name])
		}
		for _, word := range []string{"burst", "requests", "limits"} {
			if strings.Contains(text, word+":") != strings.Contains(words, word) && word != "burst" || word == "burst" && strings.Contains(text, "cpu-burst:") != strings.Contains(words, word) {
				t.Errorf("%+v: %q in\n%s\nwant %q", c, word, text, want)
			}
		}
		if !strings.Contains(text, file) || file == "" && len(files) > 0 {
			t.Errorf("%+v: no %s in\n%s", c, file, text)
		}
	}
}

// apply applies a patch as kubectl and kustomize do.
func apply[T any](t *testing.T, object T, patch []byte) (patched T) {
	t.Helper()
	before := must.Get(yaml.Marshal(object))(t)
	before = must.Get(yaml.YAMLToJSON(before))(t)
	after := must.Get(strategicpatch.StrategicMergePatch(before, must.Get(yaml.YAMLToJSON(patch))(t), object))(t)
	must.Do(t, yaml.Unmarshal(after, &patched))
	return patched
}
