package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/test/must"
)

// health checks that the published health of the agent contains a text.
func (w *world) health(want string) error {
	have, err := w.topologies.Get(context.Background(), nodeName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if _, state, err := nodetopology.ToMachine(have); err != nil || !strings.Contains(state.AgentHealth, want) {
		return errors.Join(err, fmt.Errorf("health %q", state.AgentHealth))
	}
	return nil
}

// TestGroupsCannotBeRead starts the agent with a wrong cgroup root and corrects it.
func TestGroupsCannotBeRead(t *testing.T) {
	w, k, bound, beside := bothPods(t)
	w.kubelet.CgroupRoot = "/elsewhere"
	w.start()
	w.eventually(func() error { return w.log.Says("is the kubelet running, and with this --cgroup-root?") })
	w.eventually(func() error { return w.health("groups of a kubelet") })
	w.mu.Lock()
	w.kubelet.CgroupRoot = ""
	w.mu.Unlock()
	w.enforced(k, bound, beside)
	w.eventually(w.ready)
}

// TestCeilingsCannotBeRead damages the file of the ceilings of a running agent and corrects it.
func TestCeilingsCannotBeRead(t *testing.T) {
	w, k, bound, beside := bothPods(t)
	var read atomic.Pointer[error]
	w.more = func(o *Options) {
		o.ReadCeilings = func() (api.Ceilings, error) {
			if err := read.Load(); err != nil {
				return api.Ceilings{}, *err
			}
			return must.Get(api.ParseCeilings([]byte("default: {exclusiveCPUs: {perPod: 5}}")))(t), nil
		}
	}
	w.start()
	w.enforced(k, bound, beside)
	w.eventually(func() error { return w.log.Says("the ceilings have changed") })
	read.Store(new(errors.New("it is damaged")))
	w.eventually(func() error { return w.log.Says("the ceilings that were read before apply") })
	read.Store(nil)
	w.eventually(func() error { return w.health(nodetopology.AgentHealthy) })
}

// TestMachineCannotBeRead damages the list of online CPUs of a running agent and corrects it.
func TestMachineCannotBeRead(t *testing.T) {
	w, k, bound, beside := bothPods(t)
	w.start()
	w.enforced(k, bound, beside)
	w.eventually(func() error { return w.health(nodetopology.AgentHealthy) })
	online := filepath.Join(k.root, "sys/devices/system/cpu/online")
	before, err := os.ReadFile(online)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(online, []byte("0-2047\n"), 0o644); err != nil { // more than a set of CPUs holds
		t.Fatal(err)
	}
	w.eventually(func() error { return w.health("read the machine") })
	k.widen(beside)
	w.enforced(k, bound, beside) // with the last machine
	for range 20 {               // several rounds
		time.Sleep(20 * time.Millisecond)
		if err := w.health("read the machine"); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(online, before, 0o644); err != nil {
		t.Fatal(err)
	}
	w.eventually(func() error { return w.health(nodetopology.AgentHealthy) })
}

// TestDamagedTopology starts the agent on a machine with a damaged file and a virtual list of
// online CPUs, which a container may have (lxcfs). Pods get their CPUs, and the condition says what
// is wrong.
func TestDamagedTopology(t *testing.T) {
	w, k, bound, beside := bothPods(t)
	k.file("sys/devices/system/cpu/cpu2/topology/core_cpus_list", "?")
	k.file("sys/devices/system/cpu/online", "0-3")
	w.start()
	w.enforced(k, bound, beside)
	w.eventually(w.ready)
	w.eventually(func() error { return w.health(nodetopology.AgentHealthy) })
	for _, want := range []string{"cpu2/topology/core_cpus_list", "does not list CPUs 4-7"} {
		if message := w.condition().Message; !strings.Contains(message, want) {
			t.Errorf("the condition does not say %q: %s", want, message)
		}
	}
	if lines := strings.Count(w.log.String(), "core_cpus_list"); lines != 1 {
		t.Errorf("the log has %d lines about the file, want 1", lines)
	}
}
