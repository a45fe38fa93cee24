package agent

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pinfold.dev/pinfold/core/burst"
	"pinfold.dev/pinfold/core/colocation"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/kube/nri"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/test/logtext"
)

// TestObserveOnThisMachine runs agents that observe, enforce, and observe again, beside a pod with
// exclusive CPUs. It compares all files of all control groups: the first agent writes none and says
// what it would write, and the last one leaves them as the first one has found them.
func TestObserveOnThisMachine(t *testing.T) {
	tree := newHostTree(t)
	own, rest := tree.divide()
	bound, beside := newPod("bound", own.String()), newPod("beside", "")
	run(bound, containerID('a'))
	run(beside, containerID('b'))
	groupBound, _ := tree.container(bound, containerID('a'))
	groupBeside, _ := tree.container(beside, containerID('b'))
	for _, group := range []string{groupBound, groupBeside} {
		tree.set(group, cgroup.CPUCFSQuota, "100000")
	}
	w := tree.world(t, bound, beside)
	w.listen, w.sampleInterval = "127.0.0.1:0", 10*time.Millisecond
	w.config.Burst = burst.Policy{Mode: burst.Auto, BurstPercent: 100, QuotaPercent: 300, QuotaBurstSeconds: 60}
	w.config.Batch = colocation.Config{Threshold: 0.65, Floor: 0.5}
	var err error
	if w.config.Priority, err = colocation.ParsePriority("idle"); err != nil {
		t.Fatal(err)
	}
	send := w.runtimeOf()
	before := tree.files()
	start := func(observe bool) (stop func()) {
		w.log, w.config.Observe = &logtext.Log{}, observe
		return w.start()
	}
	offers := func() bool {
		node, err := w.client.CoreV1().Nodes().Get(t.Context(), nodeName, metav1.GetOptions{})
		_, offers := node.Status.Capacity[api.BatchCPU]
		return err == nil && offers
	}

	stop := start(true)
	w.rounds()
	late := newPod("late", "")
	if answer := w.bind(tree, send, late, containerID('c')); answer != (nri.Settings{}) {
		t.Errorf("a new container gets %+v", answer)
	}
	w.rounds()
	w.end(tree, late)
	w.rounds()
	if err := errors.Join(tree.unchanged(before), w.wroteNothing(), w.observes()); err != nil {
		t.Error("an agent that observes: ", err)
	}
	if offers() {
		t.Error("an agent that observes offers CPUs to batch pods")
	}
	w.eventually(func() error {
		return errors.Join(w.pending(groupBeside, "cpuset.cpus", own.Union(rest).String(), rest.String()),
			w.pending(groupBound, "cpu.cfs_quota_us", "100000", "-1"),
			w.pending(groupBeside, "cpu.cfs_burst_us", "0", "100000"))
	})
	if err := w.metricsHave(`pinfold_pending_groups{file="cpuset.cpus"} 3`, `pinfold_container_cpu_periods_total{container="app",namespace="default",pod="bound"}`); err != nil {
		t.Error(err)
	}
	stop()

	stop = start(false)
	w.eventually(func() error {
		s, err := tree.fs.Read(groupBeside)
		if err != nil || s.CPUs != rest || s.Burst == 0 || !offers() {
			return errors.Join(err, fmt.Errorf("with an agent that enforces %s has %+v, and the node offers CPUs to batch pods: %v", groupBeside, s, offers()))
		}
		return w.ready()
	})
	stop()

	start(true)
	w.eventually(func() error {
		if offers() {
			return errors.New("the node still offers CPUs to batch pods")
		}
		return errors.Join(tree.unchanged(before), w.observes())
	})
}

// observes returns an error unless the node says that its agent only observes, and users of pods
// know it.
func (w *world) observes() error {
	c, err := w.condition(), w.told("bound", "NotBound", "the agent observes")
	if c.Status != corev1.ConditionFalse || c.Reason != nodetopology.Observing {
		err = errors.Join(err, fmt.Errorf("condition %s %s: %s", c.Status, c.Reason, c.Message))
	}
	return errors.Join(err, w.health(nodetopology.AgentObserves))
}

// pending returns an error unless the agent has reported that it would change a file.
func (w *world) pending(group, file, now, wanted string) error {
	report, err := ReadReport(w.options())
	for _, p := range report.Pending {
		for _, f := range p.Files {
			if p.Group == group && string(f.File) == file && f.Now == now && f.Wanted == wanted {
				return err
			}
		}
	}
	return errors.Join(err, fmt.Errorf("%s of %s is not pending in %+v", file, group, report))
}
