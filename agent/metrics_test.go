package agent

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	corev1 "k8s.io/api/core/v1"

	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/agent/control/groups"
	"pinfold.dev/pinfold/core/blame"
	"pinfold.dev/pinfold/core/colocation"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgroupstat"
	"pinfold.dev/pinfold/linux/cputime"
	"pinfold.dev/pinfold/linux/runqueue"
	"pinfold.dev/pinfold/linux/sampler"
	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/must"
)

// TestMetrics compares all metrics of the agent with a file. tools/monitoring checks that deploy/
// uses only metrics and labels in that file.
func TestMetrics(t *testing.T) {
	n := newQuietNode(t, colocation.Config{Threshold: 0.65, Floor: 0.5, Objective: time.Millisecond})
	n.raiseAndLower()
	n.raise() // so that the metrics of past and present raises exist
	// The node of this test has version 1, which measures no pressure.
	n.usage.Pressure = func(group string) (cgroupstat.Pressure, error) {
		if group == n.group {
			return cgroupstat.Pressure{Total: 2500 * time.Millisecond, Recent: 0.25}, nil
		}
		return cgroupstat.Pressure{}, cgroup.ErrGone
	}
	n.delays = newDelays(n.kernel.groups, 0.01, nil)
	n.with(func(*control.Control) { n.delays.set(n.status.Containers) })
	n.delays.add(n.group, blame.Delay{Parts: blame.Parts{Throttled: 60 * time.Millisecond, Idle: 3 * time.Millisecond}})
	n.delays.add("/unknown", blame.Delay{Parts: blame.Parts{Throttled: time.Second}})
	n.waits = newContention(n.kernel.groups, n.Log)
	n.with(func(*control.Control) { n.waits.set(n.status.Containers) })
	n.waits.learn(map[string]blame.Group{n.group: 1, n.group + "/inner": 2, "/system.slice": 3})
	n.waits.add([]runqueue.Wait{{Group: 1, Behind: runqueue.Group, Other: 2, Time: time.Second}, {Group: 2, Behind: runqueue.Root, Name: "kworker/1:1H", Time: 2 * time.Second}})
	n.waits.next()
	n.waits.next() // what a pair has waited is shown an interval later
	n.waits.spent(runqueue.Cost{Samples: 6000, Late: 3, Cut: 1, Lost: 1, Time: 6 * time.Millisecond})
	n.reports.publish(control.Report{Summary: n.reports.get().summary, Events: []control.Notice{{Reason: groups.Moved}, {Reason: groups.Pinned}}})
	n.reports.stats.summary.Problems = []control.Notice{{Reason: groups.CannotWrite}}
	registry, duration := newRegistry(n.agent)
	duration.Observe(0.003)
	page := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	golden.Compare(t, "testdata/metrics.prom", page.Body.String())
}

// TestUnseenMetrics: before a round has seen the node, and after one that could not, there are no
// figures about it, rather than 0.
func TestUnseenMetrics(t *testing.T) {
	n := newQuietNode(t, colocation.Config{})
	registry, _ := newRegistry(n.agent)
	for want, report := range map[string]control.Report{"pinfold_cpus": n.status.Report, "": n.control.Failed(errors.New("no")).Report, "none": {}} {
		n.reports.publish(report)
		var names []string
		for _, family := range must.Get(registry.Gather())(t) {
			names = append(names, family.GetName())
		}
		for _, name := range []string{"pinfold_cpus", "pinfold_containers", "pinfold_exclusive_llcs", "pinfold_pods_lost_cpus"} {
			if slices.Contains(names, name) != (want == "pinfold_cpus") {
				t.Errorf("%q: %s among %v", want, name, names)
			}
		}
	}
}

// quietNode is an agent on ordinary files and with a clock of its own. It has one container whose
// quota may be raised, one with a CPU of its own, and one that asks for more than there are.
type quietNode struct {
	*agent
	tree  *tree
	group string
	at    time.Time
	ticks int
}

func newQuietNode(t *testing.T, batch colocation.Config) *quietNode {
	t.Helper()
	n := &quietNode{tree: newTree(t), at: time.Unix(1_700_000_000, 0)}
	busy := raisedPod("busy")
	pods := []*corev1.Pod{busy, asking("first"), askingTooMany("second")}
	for i, p := range pods {
		id := containerID('a' + rune(i))
		run(p, id)
		if group := n.tree.pod(p.Name, id); p == busy {
			n.group = group
		}
	}
	for _, group := range []string{n.group, filepath.Dir(n.group)} {
		if err := os.WriteFile(n.tree.fs.File(group, cgroup.CPUCFSQuota), []byte("10000\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	k, err := openKernel(n.tree.root)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{RunDir: t.TempDir(), Config: control.Config{NodeName: nodeName, Batch: batch}, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Now: func() time.Time { return n.at }}.withDefaults()
	n.agent = newAgent(o, k)
	n.pods.list = func() []*corev1.Pod { return pods }
	n.setKubelet(control.Kubelet{CPUManagerPolicy: "none"})
	n.step(control.Event{Reserved: new(ledger.MilliCPU)})
	if n.meters.sampler, err = sampler.New(k.groups, sampler.Options{Shortest: 10 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	n.round()
	return n
}

// pass lets one period pass, in which all CPUs are idle and the container's sample is s.
func (n *quietNode) pass(s trace.Sample) {
	n.at = n.at.Add(tickEvery)
	n.ticks++
	var stat strings.Builder
	for cpu := range 8 {
		fmt.Fprintf(&stat, "cpu%d 0 0 0 %d 0 0 0 0 0 0\n", cpu, n.ticks*int(tickEvery/cputime.Tick))
	}
	n.tree.file("proc/stat", stat.String())
	s.Interval, s.Periods = tickEvery, 1
	n.meters.add([]sampler.Sample{{Group: n.group, Sample: s}})
	n.tick()
}

// raise keeps the container throttled until its quota is raised.
func (n *quietNode) raise() {
	n.tree.t.Helper()
	const ms = time.Millisecond
	for range 1000 {
		if len(n.status.Raises.Raised) > 0 {
			return
		}
		n.pass(trace.Sample{})
		n.pass(trace.Sample{Usage: 10 * ms, Throttled: 1, ThrottledTime: 40 * ms, Bursts: 1, BurstTime: ms})
	}
	n.tree.t.Fatal("the quota is not raised")
}

// raiseAndLower raises the quota, and then leaves the container idle until it is lowered.
func (n *quietNode) raiseAndLower() {
	n.tree.t.Helper()
	n.raise()
	for range 1000 {
		if len(n.status.Raises.Raised) == 0 {
			return
		}
		n.pass(trace.Sample{})
	}
	n.tree.t.Fatal("the quota is not lowered")
}
