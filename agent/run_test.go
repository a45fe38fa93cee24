package agent

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pinfold.dev/pinfold/agent/kubelet"
	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/kube/nri"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/test/logtext"
	"pinfold.dev/pinfold/test/must"
)

// bothPods returns a world with two running pods, of which one is bound, and the cgroups of their
// containers.
func bothPods(t *testing.T) (w *world, k *tree, bound, beside string) {
	t.Helper()
	k = newTree(t)
	web, other := asking("web"), newPod("other")
	run(web, containerID('a'))
	run(other, containerID('b'))
	w = newWorld(t, web, other)
	w.root = k.root
	return w, k, k.pod("web", containerID('a')), k.pod("other", containerID('b'))
}

// enforced waits until the containers of bothPods have their CPUs.
func (w *world) enforced(k *tree, bound, beside string) {
	w.t.Helper()
	w.eventually(func() error { return errors.Join(k.cpus(bound, "0"), k.cpus(beside, "1-7")) })
}

func TestSecondAgentDoesNotStart(t *testing.T) {
	w, k, bound, beside := bothPods(t)
	w.start()
	w.enforced(k, bound, beside)
	err := Run(t.Context(), w.options())
	if !errors.Is(err, ErrRunning) || !strings.Contains(err.Error(), "stop that one first") ||
		!strings.Contains(err.Error(), "two pools or releases select this node") {
		t.Errorf("a second agent: %v", err)
	}
	if _, err := Cleanup(t.Context(), w.options()); !errors.Is(err, ErrRunning) {
		t.Errorf("a cleanup while the agent runs: %v", err)
	}
}

func TestKubeletUnreachable(t *testing.T) {
	w, k, bound, beside := bothPods(t)
	w.kubeletErr = errors.New("connection refused")
	stop := w.start()
	w.eventually(func() error { return w.log.Says("the kubelet's configuration is not known") })
	w.eventually(func() error {
		if c := w.condition(); c.Status != corev1.ConditionUnknown {
			return fmt.Errorf("condition %+v", c)
		}
		return nil
	})
	if err := errors.Join(k.cpus(bound, "0-7"), k.cpus(beside, "0-7")); err != nil {
		t.Error(err)
	}
	w.setKubelet(fmt.Errorf("%w: its socket belongs to user 1000", kubelet.ErrUntrusted))
	w.eventually(func() error {
		if c := w.condition(); c.Status != corev1.ConditionUnknown || !strings.Contains(c.Message, "--kubelet-ca") {
			return fmt.Errorf("condition %+v", c)
		}
		return nil
	})
	w.setKubelet(nil)
	w.enforced(k, bound, beside)
	stop()

	// The next agent starts with the last known configuration.
	w.setKubelet(errors.New("connection refused"))
	k.widen(beside)
	w.start()
	w.enforced(k, bound, beside)
	w.eventually(func() error { return w.log.Says("connection refused") })
}

func TestAPIServerUnreachable(t *testing.T) {
	w, k, bound, beside := bothPods(t)
	stop := w.start()
	w.enforced(k, bound, beside)
	w.gone.Store(true)
	k.widen(beside)
	w.enforced(k, bound, beside)
	w.eventually(func() error { return w.log.Says("another program changed cpuset of " + beside) })
	w.eventually(func() error { return w.log.Says("cannot read the Node object") })
	stop()

	// An agent that starts meanwhile changes nothing.
	k.widen(beside)
	w.log = &logtext.Log{}
	stop = w.start()
	w.eventually(func() error { return w.log.Says("the pods of this node are not known") })
	w.eventually(func() error { return w.log.Says("cannot be watched") })
	stop()
	if err := errors.Join(k.cpus(bound, "0"), k.cpus(beside, "0-7")); err != nil {
		t.Error(err)
	}
}

// TestNewPodIsNarrowed checks that a new pod's cgroup loses the CPUs of other pods before the next
// round and without a request of the runtime.
func TestNewPodIsNarrowed(t *testing.T) {
	w, k, bound, beside := bothPods(t)
	w.period = time.Hour
	w.start()
	w.enforced(k, bound, beside)
	w.eventually(w.ready)
	time.Sleep(300 * time.Millisecond) // until the last round has ended
	w.eventually(func() error {        // the watch may start after the first round
		name := fmt.Sprintf("new%d", time.Now().UnixNano())
		group := k.newPod(name)
		for range 100 {
			if time.Sleep(2 * time.Millisecond); k.cpus(group, "1-7") == nil {
				return nil
			}
		}
		return k.cpus(group, "1-7")
	})
}

// TestMissingSocket: the agent enforces without NRI, and says so once.
func TestMissingSocket(t *testing.T) {
	w, k, bound, beside := bothPods(t)
	w.runtime = nri.Run
	w.start()
	w.enforced(k, bound, beside)
	w.eventually(func() error { return w.log.Says("the reconcile loop alone enforces") })
	warnings := 0
	for line := range strings.Lines(w.log.String()) {
		if strings.Contains(line, "level=WARN") && strings.Contains(line, "NRI") {
			warnings++
		}
	}
	if warnings != 1 {
		t.Errorf("%d warnings about NRI, want one, in\n%s", warnings, w.log.String())
	}
}

func TestPublishTopology(t *testing.T) {
	w, _, _, _ := bothPods(t)
	objects := w.topologies
	missing := true
	var mu sync.Mutex
	w.topologies.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		mu.Lock()
		defer mu.Unlock()
		return missing, nil, apierrors.NewNotFound(schema.GroupResource{}, "")
	})
	stop := w.start()
	w.eventually(func() error { return w.log.Says("the cluster does not know NodeTopology") })
	mu.Lock()
	missing = false
	mu.Unlock()
	w.eventually(func() error {
		have, err := objects.Get(t.Context(), nodeName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		machine, state, err := nodetopology.ToMachine(have)
		if err != nil || machine.Online().String() != "0-7" || state.KubeletPolicy != "none" || state.AgentHealth != nodetopology.AgentHealthy {
			return errors.Join(err, fmt.Errorf("published %+v", state))
		}
		return nil
	})
	stop()
	if _, err := Cleanup(t.Context(), w.options()); err != nil {
		t.Error(err)
	}
	if _, err := objects.Get(t.Context(), nodeName, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after the cleanup: %v", err)
	}
	if c := w.condition(); c.Type != "" {
		t.Errorf("after the cleanup the node has %+v", c)
	}
}

func TestEventsAndMetrics(t *testing.T) {
	k := newTree(t)
	first, second := asking("first"), askingTooMany("second")
	second.CreationTimestamp = metav1.NewTime(time.Unix(1_800_000_000, 0))
	run(first, containerID('a'))
	run(second, containerID('b'))
	w := newWorld(t, first, second)
	w.root, w.listen = k.root, "127.0.0.1:0"
	groupFirst, groupSecond := k.pod("first", containerID('a')), k.pod("second", containerID('b'))
	w.start()
	w.enforced(k, groupFirst, groupSecond)
	w.eventually(func() error {
		events, err := w.client.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{})
		if err != nil || len(events.Items) != 1 {
			return errors.Join(err, fmt.Errorf("%d events, want 1", len(events.Items)))
		}
		if e := events.Items[0]; e.InvolvedObject.Name != "second" || e.Reason != "CPUsNotGiven" {
			return fmt.Errorf("event %+v", e)
		}
		return nil
	})
	k.widen(groupSecond)
	w.eventually(func() error {
		text, err := w.get("/metrics")
		if err != nil {
			return err
		}
		for _, line := range []string{`pinfold_cpus{kind="exclusive"} 1`, `pinfold_cpus{kind="shared"} 7`, `pinfold_pods_lost_cpus 0`,
			`pinfold_pod_warnings{namespace="default",pod="second",reason="CPUsNotGiven"} 1`,
			`pinfold_foreign_writes_undone_total{setting="cpuset"} 1`, `pinfold_cgroup_writes_total{file="cpuset.cpus",result="done"} 4`,
			`pinfold_exclusive_split_cores 1`, `pinfold_runtime_connected 0`, `pinfold_containers{home="exclusive"} 1`} {
			if !strings.Contains(text, line+"\n") {
				return fmt.Errorf("no %s in\n%s", line, text)
			}
		}
		return nil
	})
	for _, path := range []string{"/healthz", "/readyz"} {
		if text, err := w.get(path); err != nil || text != "ok\n" {
			t.Errorf("%s: %q, %v", path, text, err)
		}
	}
	w.eventually(func() error { // changes of the condition are published together, a moment later
		if c := w.condition(); c.Status != corev1.ConditionTrue { // authors of pods can cause that
			return fmt.Errorf("condition %+v", c)
		}
		return nil
	})
}

// get sends a request to the agent's server, whose addresses are in the log.
func (w *world) get(path string) (string, error) {
	addresses := regexp.MustCompile(`metrics=(\S+) health=(\S+)`).FindStringSubmatch(w.log.String())
	if addresses == nil {
		return "", errors.New("the log does not contain the addresses")
	}
	address := addresses[1]
	if path != "/metrics" {
		address = addresses[2]
	}
	response, err := http.Get("http://" + address + path)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s", response.Status, text)
	}
	return string(text), err
}

func (w *world) setKubelet(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kubeletErr = err
}

// TestCleanupOfOthersSettings: cleanup leaves the groups of a node alone on which the agent has set
// nothing, because no pod asked. What is set there is another program's.
func TestCleanupOfOthersSettings(t *testing.T) {
	k := newTree(t)
	plain := newPod("plain")
	run(plain, containerID('a'))
	w := newWorld(t, plain)
	w.root = k.root
	group := k.pod("plain", containerID('a'))
	stop := w.start()
	w.eventually(func() error {
		_, err := w.topologies.Get(t.Context(), nodeName, metav1.GetOptions{})
		return err
	})
	if err := os.WriteFile(k.fs.File(group, cgroup.CPUSetCPUs), []byte("2-3\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	stop()
	if _, err := Cleanup(t.Context(), w.options()); err != nil {
		t.Error(err)
	}
	if err := k.cpus(group, "2-3"); err != nil {
		t.Error(err)
	}
}

// TestKilledRecording: an agent that starts puts back the weights that a recording has left, and so
// does cleanup.
func TestKilledRecording(t *testing.T) {
	k := newTree(t)
	w := newWorld(t)
	w.root = k.root
	const tier = "/kubepods/burstable"
	leave := func() {
		must.Do(t, os.MkdirAll(filepath.Join(k.root, "run/pinfold"), 0o700))
		must.Do(t, os.WriteFile(filepath.Join(k.root, "run/pinfold/weights"), []byte(`{"`+tier+`":512}`), 0o600))
		must.Do(t, os.WriteFile(k.fs.File(tier, cgroup.CPUShares), []byte("262144\n"), 0o644))
	}
	before := func() error {
		s, err := k.fs.ReadParts(tier, cgroup.Parts{Weight: true})
		if err == nil && s.Weight != 512 {
			err = fmt.Errorf("weight %d", s.Weight)
		}
		return err
	}
	leave()
	stop := w.start()
	w.eventually(before)
	stop()
	leave()
	must.Get(Cleanup(t.Context(), w.options()))(t)
	must.Do(t, before())
}
