package cluster

import (
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/agent"
	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/test/variables"
)

// TestSoak creates and deletes pods in rounds, on simulated nodes and on one with an agent. After
// each round it measures the memory, goroutines and files of the scheduler's and the agent's
// process, which return to the values after the first rounds. It takes a minute, or
// PINFOLD_TEST_SOAK=1h.
func TestSoak(t *testing.T) {
	const seed = 1
	duration := variables.Duration(t, "PINFOLD_TEST_SOAK", time.Minute)
	s := newSoak(begin(t), rand.New(rand.NewPCG(seed, 0)))
	const least = 3 // minimum number of rounds before and after the first look
	begun := time.Now()
	for n := 0; n < least || time.Since(begun) < duration/3; n++ {
		s.round()
	}
	before, made := s.look(nil), s.made
	stacks := s.fromScheduler("/debug/pprof/goroutine?debug=1")
	for n := 0; n < least || time.Since(begun) < duration; n++ {
		s.round()
	}
	after := s.look(before)
	t.Logf("seed %d: %d pods, of which %d before the first look, %d times not on all CPUs of the agent's node:\nbefore %+v\nafter  %+v",
		seed, s.made, made, s.moved, before, after)
	if s.moved == 0 {
		t.Error("the agent has restricted no pod's cgroup, so it had nothing to do")
	}
	for name, was := range before {
		if is, most := after[name], was.value+was.slack; is.value > most {
			t.Errorf("%s: %d after %d more pods, %d before; want at most %d", name, is.value, s.made-made, was.value, most)
		}
	}
	if t.Failed() {
		t.Logf("the scheduler's goroutines before:\n%s\nand after:\n%s", stacks, s.fromScheduler("/debug/pprof/goroutine?debug=1"))
	}
}

// soak is a cluster with a node whose kubelet and runtime are the test, and whose agent runs in
// this process.
type soak struct {
	*test
	*fixture
	random  *rand.Rand
	running map[string]string // cgroups on the node, by the UID of their pods
	made    int
	moved   int // how often a cgroup on the node was observed without all CPUs
}

const soakNode = "soak"

func newSoak(c *test, random *rand.Rand) *soak {
	c.Helper()
	s := &soak{test: c, fixture: newFixture(c.T), random: random, running: map[string]string{}}
	c.createReadyNode(soakNode)
	own := c.as(c.config)
	s.runAgent(agent.Options{Config: control.Config{NodeName: soakNode}, Root: s.root, RunDir: c.TempDir(), Client: own.client, Topologies: own.topologies,
		Kubelet: noPolicy,
		Period:  200 * time.Millisecond, SampleInterval: 10 * time.Millisecond, APIEvery: time.Second, RetryAfter: 100 * time.Millisecond,
		Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	c.eventually(func() string {
		_, err := c.topologies.Get(c.Context(), soakNode, metav1.GetOptions{})
		return text(err)
	})
	return s
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// round creates pods, changes and deletes some of them, and then deletes all.
func (s *soak) round() {
	s.Helper()
	const pods, onNode = 40, 12
	var names []string
	for i := range pods {
		s.made++
		name := fmt.Sprintf("soak-%d", s.made)
		words := []string{`{cpuset-scheduler: "true"}`, `{cpuset-scheduler: "true", cpu-policy: static-burst}`,
			`{pinfold.dev/cpu-burst: '{"policy":"auto"}'}`, `{cpuset-scheduler: "true", pinfold.dev/full-cores: required}`, `{}`}
		spec := fmt.Sprintf(churnPods[s.random.IntN(len(churnPods))], 1+s.random.IntN(4))
		manifest := fmt.Sprintf("metadata: {name: %s, annotations: %s}\nspec: %s\n", name, words[s.random.IntN(len(words))], spec)
		var pod corev1.Pod
		s.must(yaml.UnmarshalStrict([]byte(manifest), &pod))
		if i < onNode {
			pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: soakNode}
			pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}} // of a node that has just become ready
		}
		_, err := s.client.CoreV1().Pods("default").Create(s.Context(), &pod, metav1.CreateOptions{})
		s.must(err)
		names = append(names, name)
		if s.random.IntN(4) == 0 {
			at := s.random.IntN(len(names))
			grace := int64(s.random.IntN(2))
			s.must(s.client.CoreV1().Pods("default").Delete(s.Context(), names[at], metav1.DeleteOptions{GracePeriodSeconds: &grace}))
			names = append(names[:at], names[at+1:]...)
		}
		s.kubelet()
	}
	for range 10 {
		s.kubelet()
		time.Sleep(20 * time.Millisecond)
	}
	for _, name := range names {
		grace := int64(s.random.IntN(2))
		s.must(s.client.CoreV1().Pods("default").Delete(s.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: &grace}))
	}
	s.eventually(func() string {
		if n := s.kubelet(); n > 0 {
			return fmt.Sprintf("%d pods are left", n)
		}
		return ""
	})
}

// kubelet does what a kubelet and a runtime do on the agent's node, and returns the number of pods
// in the cluster.
func (s *soak) kubelet() int {
	s.Helper()
	pods, now := s.pods(), int64(0)
	there := map[string]bool{}
	for i := range pods {
		pod := &pods[i]
		uid := string(pod.UID)
		switch {
		case pod.Spec.NodeName != soakNode:
		case pod.DeletionTimestamp != nil:
			err := s.client.CoreV1().Pods("default").Delete(s.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now})
			(&churner{test: s.test}).check(s.Context(), err)
		case s.running[uid] == "":
			s.running[uid] = s.start(pod)
			fallthrough
		default:
			there[uid] = true
			if s.cpus(s.running[uid]) != "0-7" {
				s.moved++
			}
		}
	}
	for uid, group := range s.running {
		if !there[uid] {
			s.remove(group)
			delete(s.running, uid)
		}
	}
	return len(pods)
}

// start creates the cgroups of a pod, reports its containers as running, and returns its cgroup.
func (s *soak) start(pod *corev1.Pod) string {
	s.Helper()
	group := "/kubepods/burstable/pod" + string(pod.UID)
	s.group(group, "-1")
	pod.Status.Phase, pod.Status.ObservedGeneration = corev1.PodRunning, pod.Generation
	for i, c := range pod.Spec.Containers {
		id := strings.ReplaceAll(string(pod.UID), "-", "") + fmt.Sprintf("%032x", i)
		quota := "-1"
		if limit := c.Resources.Limits.Cpu().MilliValue(); limit > 0 {
			quota = fmt.Sprint(100 * limit)
		}
		s.group(group+"/"+id, quota)
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: c.Name, ContainerID: "containerd://" + id,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})
	}
	_, err := s.client.CoreV1().Pods("default").UpdateStatus(s.Context(), pod, metav1.UpdateOptions{})
	(&churner{test: s.test}).check(s.Context(), err)
	return group
}
