package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/kube/nri"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptree"
	"pinfold.dev/pinfold/test/logtext"
	"pinfold.dev/pinfold/test/must"
)

// files returns the contents of all files of all cgroups of the tree, except counters.
func (h *hostTree) files() map[string]string {
	h.t.Helper()
	all := map[string]string{}
	for _, c := range []cgroup.Controller{cgroup.CPU, cgroup.CPUSet, cgroup.CPUAcct} {
		err := filepath.WalkDir(h.fs.Dir(c, h.root), func(name string, d fs.DirEntry, err error) error {
			base := filepath.Base(name)
			if err != nil || d.IsDir() || base == "cpu.stat" || strings.HasPrefix(base, "cpuacct.") {
				return err
			}
			text, err := os.ReadFile(name)
			if errors.Is(err, os.ErrPermission) || err == nil {
				all[name] = string(text)
				return nil
			}
			all[name] = err.Error() // some files cannot be read in any group
			return nil
		})
		if err != nil {
			h.t.Fatal(err)
		}
	}
	return all
}

// unchanged returns an error that names the files that differ.
func (h *hostTree) unchanged(before map[string]string) error {
	var errs []error
	now := h.files()
	maps.DeleteFunc(now, func(name, text string) bool { return before[name] == text })
	for name, text := range now {
		errs = append(errs, fmt.Errorf("%s: %q -> %q", name, before[name], text))
	}
	return errors.Join(errs...)
}

// rounds waits until the agent has done some more rounds.
func (w *world) rounds() {
	w.t.Helper()
	done := func() (n int, err error) {
		text, err := w.get("/metrics")
		if _, after, ok := strings.Cut(text, "\npinfold_reconciles_total "); ok {
			_, err = fmt.Sscan(after, &n)
		}
		return n, errors.Join(err, w.conditionIsKnown())
	}
	w.eventually(func() error { _, err := done(); return err })
	before, _ := done()
	w.eventually(func() error {
		now, err := done()
		if now < before+5 {
			err = errors.Join(err, fmt.Errorf("%d rounds", now-before))
		}
		return err
	})
}

// conditionIsKnown returns an error while the agent waits for its inputs.
func (w *world) conditionIsKnown() error {
	if c := w.condition(); c.Status != corev1.ConditionTrue && c.Status != corev1.ConditionFalse {
		return fmt.Errorf("condition %q %s: %s", c.Status, c.Reason, c.Message)
	}
	return nil
}

// wroteNothing returns an error if an agent of this test has written a file of a cgroup.
func (w *world) wroteNothing() error {
	if text, err := w.get("/metrics"); err != nil || strings.Contains(text, "\npinfold_cgroup_writes_total") {
		return fmt.Errorf("settings were written (%w):\n%s", err, w.log)
	}
	return nil
}

// create asks the agent about a new container and makes its cgroup, as the runtime does, and
// returns the answer.
func (h *hostTree) create(ctx context.Context, r nri.Handler, pod *corev1.Pod, id string) nri.Settings {
	h.t.Helper()
	h.make(h.podGroup(pod))
	about := nri.Pod{ID: "sandbox-" + pod.Name, UID: ledger.PodID(pod.UID), Namespace: pod.Namespace, Name: pod.Name, CgroupParent: h.podGroup(pod)}
	c := nri.Container{ID: id, PodID: about.ID, Name: "app", CgroupsPath: h.podGroup(pod) + "/" + id}
	settings, err := r.Create(ctx, about, c)
	if err != nil {
		h.t.Error(err)
	}
	h.make(c.CgroupsPath)
	if err := r.Start(ctx, about, c); err != nil {
		h.t.Error(err)
	}
	if update := r.Update(ctx, about, c); settings == (nri.Settings{}) && update != settings {
		h.t.Errorf("the answer to an update is %+v", update)
	}
	return settings
}

// runtimeOf serves the agent's connections to a container runtime, and returns a function that sends
// a request.
func (w *world) runtimeOf() (send func(func(context.Context, nri.Handler))) {
	requests := make(chan func(context.Context, nri.Handler))
	w.runtime = func(ctx context.Context, o nri.Options, h nri.Handler) {
		o.OnState(nri.State{Connected: true})
		h.Synchronize(ctx, nil, nil)
		for {
			select {
			case <-ctx.Done():
				return
			case request := <-requests:
				request(ctx, h)
			}
		}
	}
	return func(request func(context.Context, nri.Handler)) {
		done := make(chan struct{})
		requests <- func(ctx context.Context, h nri.Handler) {
			defer close(done)
			request(ctx, h)
		}
		<-done
	}
}

// bind adds a pod to the API server and makes its container, and returns the agent's answer.
func (w *world) bind(tree *hostTree, send func(func(context.Context, nri.Handler)), pod *corev1.Pod, id string) (answer nri.Settings) {
	w.t.Helper()
	if err := w.client.Tracker().Add(pod); err != nil {
		w.t.Fatal(err)
	}
	send(func(ctx context.Context, h nri.Handler) { answer = tree.create(ctx, h, pod, id) })
	return answer
}

// end removes a pod and its cgroups.
func (w *world) end(tree *hostTree, pod *corev1.Pod) {
	w.t.Helper()
	if err := w.client.CoreV1().Pods(pod.Namespace).Delete(w.t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
	must.Do(w.t, cgrouptree.Remove(w.t.Context(), tree.fs, tree.podGroup(pod), cgroup.CPU, cgroup.CPUSet, cgroup.CPUAcct))
}

// TestIdleOnThisMachine compares all files of all control groups before and after an agent is
// installed. While no pod asks for anything it writes none, whatever they contain. After a pod that
// asked has gone, also while no agent ran, they contain the same as before.
func TestIdleOnThisMachine(t *testing.T) {
	tree := newHostTree(t)
	own, rest := tree.divide()
	one, two := newPod("one", ""), newPod("two", "")
	run(one, containerID('a'))
	run(two, containerID('b'))
	groupOne, _ := tree.container(one, containerID('a'))
	groupTwo, _ := tree.container(two, containerID('b'))
	tree.set(groupOne, cgroup.CPUCFSQuota, "100000")
	tree.set(groupTwo, cgroup.CPUCFSQuota, "100000")
	w := tree.world(t, one, two)
	w.listen = "127.0.0.1:0"
	send := w.runtimeOf()

	kubelets := tree.files()
	tree.write(tree.fs.File(groupOne, cgroup.CPUCFSQuota), "50000")
	tree.write(tree.fs.File(groupOne, cgroup.CPUCFSBurst), "20000")
	tree.write(tree.fs.File(groupTwo, cgroup.CPUSetCPUs), own.String())
	before := tree.files()
	stop := w.start()
	w.rounds()
	late := newPod("late", "")
	if answer := w.bind(tree, send, late, containerID('c')); answer != (nri.Settings{}) {
		t.Errorf("a new container gets %+v", answer)
	}
	w.rounds()
	w.end(tree, late)
	w.rounds()
	if err := errors.Join(tree.unchanged(before), w.wroteNothing()); err != nil {
		t.Fatal("after the agent was installed: ", err)
	}

	web := newPod("web", own.String())
	tree.write(tree.fs.File(groupTwo, cgroup.CPUSetCPUs), own.Union(rest).String())
	for _, killed := range []bool{false, true} {
		if answer := w.bind(tree, send, web, containerID('d')); answer.CPUs != own {
			t.Errorf("a container with exclusive CPUs gets %+v", answer)
		}
		for _, group := range []string{groupOne, groupTwo} {
			if s, err := tree.fs.Read(group); err != nil || s.CPUs != rest {
				t.Errorf("when a container with exclusive CPUs starts, %s has CPUs %q (%v), want %s", group, s.CPUs, err, rest)
			}
		}
		if killed {
			stop()
		}
		w.end(tree, web)
		if killed {
			w.log = &logtext.Log{}
			w.start()
		}
		w.eventually(func() error { return tree.unchanged(kubelets) })
	}
}
