package demo

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/procfs"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/linux/sysfs"
	"pinfold.dev/pinfold/local/simnode"
	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/must"
)

// podSpec decodes the specification of an object's pods.
func podSpec(t *testing.T, object *unstructured.Unstructured) corev1.PodSpec {
	t.Helper()
	fields, _, err := unstructured.NestedMap(object.Object, podPath(object.GetKind(), "spec")...)
	if err != nil {
		t.Fatal(err)
	}
	var spec corev1.PodSpec
	must.Do(t, runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &spec))
	return spec
}

// TestFit reduces every workload to several machines and checks that it fits there.
func TestFit(t *testing.T) {
	for _, cpus := range []int{1, 3, 4, 7, 64} {
		for _, r := range realRounds() {
			objects := must.Get(loadManifests(r.files, r.policy))(t)
			must.Get(fit(objects, "here", cpus))(t)
			total := 0
			for _, object := range objects {
				if podPath(object.GetKind(), "spec") == nil {
					continue
				}
				spec := podSpec(t, object)
				if diff := cmp.Diff(map[string]string{corev1.LabelHostname: "here"}, spec.NodeSelector); diff != "" {
					t.Errorf("%s is assigned to another node:\n%s", object.GetName(), diff)
				}
				resources := spec.Containers[0].Resources
				limit := resources.Limits.Cpu()
				if resources.Requests.Cpu().Cmp(*limit) > 0 || int(limit.Value()) != min(4, cpus) {
					t.Errorf("%s on %d CPUs: requests %v, limit %v", object.GetName(), cpus, resources.Requests.Cpu(), limit)
				}
				total += podCount(objects) * int(limit.Value())
			}
			if total > cpus || total == 0 {
				t.Errorf("%s uses %d of %d CPUs", r.title, total, cpus)
			}
		}
	}
}

func TestFitReportsChanges(t *testing.T) {
	for want, cpus := range map[string]int{
		"cut to this machine: cpu 2 instead of 4, memory 256Mi instead of 8Gi, 1 of 2 replicas": 3 - 1,
		"cut to this machine: memory 256Mi instead of 8Gi":                                      8,
	} {
		objects := must.Get(loadManifests([]string{"nginx.yaml"}, placement.Static))(t)
		changes, err := fit(objects, "here", cpus)
		if err != nil || changes.String() != want {
			t.Errorf("%d CPUs: %q (%v), want %q", cpus, changes, err, want)
		}
	}
	if got := (cut)(nil).String(); got != "unchanged" {
		t.Errorf("no changes: %q", got)
	}
}

func TestSeen(t *testing.T) {
	s := seen{limits: bandwidth.Limits{Quota: 400 * time.Millisecond, Period: 100 * time.Millisecond}}
	s.add(cpuset.MustParse("0-1,4"), 4)
	s.add(cpuset.MustParse("0-1,4"), 0)
	if want := "2 threads allowed on CPUs 0-1,4, last on CPUs 0,4, quota 400ms per 100ms"; s.String() != want {
		t.Errorf("%q, want %q", s, want)
	}
	s.add(cpuset.MustParse("2"), 2)
	s.limits.Quota = bandwidth.Unlimited
	if want := "3 threads (not all the same) allowed on CPUs 0-2,4, last on CPUs 0,2,4, no quota"; s.String() != want {
		t.Errorf("%q, want %q", s, want)
	}
	own := must.Get(sysfs.Affinity())(t)
	proc := must.Get(procfs.NewDefaultFS())(t)
	var here seen
	if err := here.look(proc, os.Getpid()); err != nil || here.threads != 1 || !own.IsSubsetOf(here.allowed) || here.ran.Len() != 1 {
		t.Errorf("this process: %s, want CPUs %s; error %v", here, own, err)
	}
	if err := here.look(proc, 1<<30); !errors.Is(err, fs.ErrNotExist) || here.threads != 1 {
		t.Errorf("a thread that has ended: %s, error %v", here, err)
	}
}

func TestShowReal(t *testing.T) {
	machine := topology.Shape{CoresPerLLC: 4}.MustBuild()
	v := newView([]simnode.Node{{Name: "here", Machine: machine}})
	w := &world{allocations: api.Allocations{}}
	w.add(t, "right", "here", 1, "static", `"cpus":"0","numaNodes":[0]`)
	w.add(t, "astray", "here", 1, "static", `"cpus":"1","numaNodes":[0]`)
	w.add(t, "short", "here", 1, "static", `"cpus":"2","numaNodes":[0]`)
	placements := must.Get(v.placements(w.pods, w.allocations))(t)
	found := map[string]seen{
		"right":  {threads: 7, allowed: cpuset.MustParse("0"), ran: cpuset.MustParse("0"), limits: bandwidth.Limits{Quota: bandwidth.Unlimited}},
		"astray": {threads: 2, allowed: cpuset.MustParse("1-3"), ran: cpuset.MustParse("3"), limits: bandwidth.Limits{Quota: bandwidth.Unlimited}},
	}
	if settled(placements, found) || !settled(placements[:1], found) || settled(placements[1:2], found) {
		t.Error("settled is wrong")
	}
	var text strings.Builder
	must.Do(t, v.showReal(Output{Writer: &text}, "A round", cut{"cpu 1 instead of 4"}, placements, found))
	golden.Compare(t, "testdata/real.txt", text.String())
}
