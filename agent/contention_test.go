package agent

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/core/blame"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptest"
	"pinfold.dev/pinfold/linux/runqueue"
	"pinfold.dev/pinfold/test/must"
)

// TestContention: waits count for the container whose group or inner group waited, and for the
// workloads of both.
func TestContention(t *testing.T) {
	const web, second, batch, host = "/kubepods/pod1/web", "/kubepods/pod1/second", "/kubepods/pod2/batch", "/system.slice"
	c := newContention(nil, slog.New(slog.DiscardHandler))
	container := func(path, pod, workload string) control.Limited {
		return control.Limited{Namespace: "shop", Name: pod, Workload: workload, Path: path,
			Ref: nodeplan.Ref{Container: path[strings.LastIndex(path, "/")+1:]}}
	}
	all := []control.Limited{container(web, "web-1", "Deployment/web"), container(second, "web-1", "Deployment/web"), container(batch, "batch-1", "Job/batch")}
	c.set(all)
	waits := func() []runqueue.Wait {
		return []runqueue.Wait{
			{Group: 1, Behind: runqueue.Group, Other: 1, Time: 1 * time.Second},   // own
			{Group: 11, Behind: runqueue.Group, Other: 1, Time: 2 * time.Second},  // own, of an inner group
			{Group: 11, Behind: runqueue.Group, Other: 2, Time: 4 * time.Second},  // another container of the pod
			{Group: 1, Behind: runqueue.Group, Other: 3, Time: 8 * time.Second},   // another pod
			{Group: 1, Behind: runqueue.Group, Other: 4, Time: 16 * time.Second},  // a service of the host
			{Group: 1, Behind: runqueue.Group, Other: 99, Time: 32 * time.Second}, // a group that has ended
			{Group: 1, Behind: runqueue.Root, Name: "kworker/0:1", Time: 64 * time.Second},
			{Group: 1, Behind: runqueue.Root, Name: "kworker/1:0H", Time: 128 * time.Second},
			{Group: 1, Behind: runqueue.Machine, Time: 256 * time.Second},
			{Group: 1, Behind: runqueue.Nothing, Time: 512 * time.Second},
			{Group: 4, Behind: runqueue.Group, Other: 1, Time: time.Hour}, // no container waits
		}
	}
	if !c.unknown(waits()) {
		t.Error("no group is unknown before any was listed")
	}
	c.learn(map[string]blame.Group{"/": 5, web: 1, web + "/inner": 11, second: 2, batch: 3, host: 4})
	c.miss(waits())
	if c.unknown(waits()) {
		t.Error("a group that has ended is looked for again and again")
	}
	c.add(waits())
	c.next()
	check := func(one *waiting, others, own time.Duration) {
		t.Helper()
		if one.others != others*time.Second || one.own != own*time.Second {
			t.Errorf("%v waited %v and %v, want %d s and %d s", one.labels, one.others, one.own, others, own)
		}
	}
	check(c.containers[web], 508, 3)
	check(c.containers[batch], 0, 0)
	shown := func() map[string]time.Duration {
		all := map[string]time.Duration{}
		for p, one := range c.pairs {
			if one.shown > 0 {
				all[fmt.Sprintf("%s %s behind %s %s", p.victim.namespace, p.victim.name, p.behind.namespace, p.behind.name)] = one.total / time.Second
			}
		}
		return all
	}
	want := map[string]time.Duration{
		"shop Deployment/web behind shop Deployment/web":           4,
		"shop Deployment/web behind shop Job/batch":                8,
		"shop Deployment/web behind  /system.slice":                16,
		"shop Deployment/web behind  a group that has ended":       32,
		"shop Deployment/web behind  thread kworker":               192,
		"shop Deployment/web behind  interrupts or the hypervisor": 256,
	}
	if got := shown(); !maps.Equal(got, want) {
		t.Errorf("pairs %v\nwant  %v", got, want)
	}

	// A container that is restarted goes on where it was, and one that is gone is forgotten.
	all[0].Path = "/kubepods/pod1/again"
	c.set(all[:2])
	check(c.containers[all[0].Path], 508, 3)
	if len(c.containers) != 2 {
		t.Errorf("%d containers, want 2", len(c.containers))
	}
}

// TestContentionPairs: the ten heaviest pairs of an interval are shown for an hour, and others are forgotten.
func TestContentionPairs(t *testing.T) {
	c := newContention(nil, slog.New(slog.DiscardHandler))
	c.set([]control.Limited{{Namespace: "shop", Name: "web", Workload: "Pod/web", Path: "/web"}})
	ids := map[string]blame.Group{"/web": 1}
	var waits []runqueue.Wait
	for i := range 12 {
		id := blame.Group(100 + i)
		ids[fmt.Sprintf("/other%02d", i)] = id
		waits = append(waits, runqueue.Wait{Group: 1, Behind: runqueue.Group, Other: id, Time: time.Duration(i+1) * time.Second})
	}
	c.learn(ids)
	c.add(waits)
	c.next()
	shown := func() (names []string) {
		for p, one := range c.pairs {
			if one.shown > 0 {
				names = append(names, p.behind.name)
			}
		}
		slices.Sort(names)
		return names
	}
	if got := shown(); len(got) != 10 || got[0] != "/other02" {
		t.Errorf("shown are %v", got)
	}
	for p, one := range c.pairs { // the counter begins with 0
		if one.waited() != 0 {
			t.Errorf("%v is sent of %s at once", one.waited(), p.behind.name)
		}
	}
	c.add(waits[:1]) // now it is the heaviest
	c.next()
	if got := shown(); len(got) != 11 || got[0] != "/other00" || len(c.pairs) != 11 {
		t.Errorf("shown are %v of %d", got, len(c.pairs))
	}
	for p, one := range c.pairs {
		if p.behind.name != "/other00" && one.waited() != one.total {
			t.Errorf("%v of %v are sent of %s after an interval", one.waited(), one.total, p.behind.name)
		}
	}
	for range showPairs - 1 {
		c.next()
	}
	if got := shown(); !slices.Equal(got, []string{"/other00"}) {
		t.Errorf("after an hour shown are %v", got)
	}
	c.next()
	c.next()
	if len(c.pairs) != 0 {
		t.Errorf("%d pairs are not forgotten", len(c.pairs))
	}
}

// TestThrottledByPod: what the container's limit and its pod's throttle overlaps, and does not count twice.
func TestThrottledByPod(t *testing.T) {
	f := cgrouptest.NewFiles(t)
	for _, group := range []struct {
		path string
		ns   int
	}{{"/pod", 5e9}, {"/pod/main", 3e9}, {"/pod/side", 0}} {
		f.Group(group.path, "10000")
		f.Write("sys/fs/cgroup/cpu"+group.path+"/cpu.stat", fmt.Sprintf("nr_periods 10\nnr_throttled 5\nthrottled_time %d\n", group.ns))
	}
	fs := must.Get(cgroup.Open(f.Root))(t)
	for _, test := range []struct {
		group string
		alone bool
		want  time.Duration
	}{{"/pod/main", true, 5 * time.Second}, {"/pod/main", false, 3 * time.Second}, {"/pod/side", false, 5 * time.Second}} {
		if d, known := throttledTime(fs, test.group, test.alone); !known || d != test.want {
			t.Errorf("%+v: throttled for %v, known: %v", test, d, known)
		}
	}
	if _, known := throttledTime(fs, "/gone/main", true); known {
		t.Error("it is known for how long a group was throttled that does not exist")
	}
}

// TestContentionUnavailable: without samples there is only the metric that says so.
func TestContentionUnavailable(t *testing.T) {
	c := newContention(nil, slog.New(slog.DiscardHandler))
	out := make(chan prometheus.Metric, 10)
	c.collect(out)
	if len(out) != 1 {
		t.Errorf("%d metrics, want 1", len(out))
	}
}
