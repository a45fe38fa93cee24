package cluster

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/agent"
	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptest"
	"pinfold.dev/pinfold/test/variables"
)

// TestSoak creates and deletes pods in rounds, on simulated nodes and on one with an agent. After
// each round it measures the memory, goroutines and files of the scheduler's and the agent's
// process, which return to the values after the first rounds. It takes 15 seconds, or
// PINFOLD_TEST_SOAK=1h.
func TestSoak(t *testing.T) {
	const seed = 1
	duration := variables.Duration(t, "PINFOLD_TEST_SOAK", 15*time.Second)
	s := newSoak(begin(t), rand.New(rand.NewPCG(seed, 0)))
	const least = 3 // minimum number of rounds before and after the first look
	begun := time.Now()
	for n := 0; n < least || time.Since(begun) < duration/3; n++ {
		s.round()
	}
	before, made := s.look(nil), s.made
	stacks := s.fromScheduler("/debug/pprof/goroutine?debug=1")
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the scheduler's goroutines before:\n%s\nand after:\n%s", stacks, s.fromScheduler("/debug/pprof/goroutine?debug=1"))
		}
	})
	for n := 0; n < least || time.Since(begun) < duration; n++ {
		s.round()
	}
	after := s.look(before)
	t.Logf("seed %d: %d pods, of which %d before the first look, %d times not on all CPUs of the agent's node:\nbefore %+v\nafter  %+v",
		seed, s.made, made, s.moved, before, after)
	if s.moved == 0 {
		t.Error("the agent has restricted no pod's cgroup, so it had nothing to do")
	}
}

// soak is a cluster with a node whose kubelet and runtime are the test, and whose agent runs in
// this process.
type soak struct {
	*allocator // without a process of its own
	random     *rand.Rand
	made       int
	moved      int // how often a cgroup on the node was observed without all CPUs
}

const soakNode = "soak"

func newSoak(c *test, random *rand.Rand) *soak {
	c.Helper()
	s := &soak{random: random, allocator: &allocator{test: c, Files: cgrouptest.NewFiles(c), node: soakNode, running: map[types.UID]*corev1.Pod{}}}
	c.createReadyNode(soakNode)
	own := c.as(c.config)
	s.runAgent(agent.Options{Config: control.Config{NodeName: soakNode}, Root: s.Root, RunDir: c.TempDir(), Client: own.client, Topologies: own.topologies,
		Kubelet: func(context.Context) (control.Kubelet, error) { return control.Kubelet{CPUManagerPolicy: "none"}, nil },
		Period:  200 * time.Millisecond, SampleInterval: 10 * time.Millisecond, APIEvery: time.Second, RetryAfter: 100 * time.Millisecond,
		Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	c.eventually("the topology of the node", func() error {
		_, err := c.topologies.Get(c.Context(), soakNode, metav1.GetOptions{})
		return err
	})
	return s
}

// soakPods are the kinds of pods. %d is a number of CPUs.
var soakPods = []string{
	`{containers: [{name: a, image: a, resources: {requests: {cpu: 100m}, limits: {cpu: %d}}}]}`,
	`{containers: [{name: a, image: a, resources: {limits: {cpu: %d}}}]}`,
	`{containers: [{name: a, image: a, resources: {requests: {cpu: 200m}, limits: {cpu: %d}}},
                  {name: b, image: b, resources: {requests: {cpu: 300m}, limits: {cpu: 1500m}}}]}`,
	`{initContainers: [{name: i, image: i, resources: {limits: {cpu: 6}}},
                      {name: s, image: s, restartPolicy: Always, resources: {requests: {cpu: 50m}, limits: {cpu: 1}}},
                      {name: j, image: j, resources: {requests: {cpu: 700m}}}],
     containers: [{name: a, image: a, resources: {requests: {cpu: 200m}, limits: {cpu: %d}}}]}`,
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
		spec := fmt.Sprintf(soakPods[s.random.IntN(len(soakPods))], 1+s.random.IntN(4))
		manifest := fmt.Sprintf("metadata: {name: %s, annotations: %s}\nspec: %s\n", name, words[s.random.IntN(len(words))], spec)
		pod := s.parse(manifest)
		if i < onNode {
			pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: soakNode}
			pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}} // of a node that has just become ready
		}
		_, err := s.podAPI().Create(s.Context(), pod, metav1.CreateOptions{})
		s.must(err)
		names = append(names, name)
		if s.random.IntN(4) == 0 {
			at := s.random.IntN(len(names))
			grace := int64(s.random.IntN(2))
			s.must(s.podAPI().Delete(s.Context(), names[at], metav1.DeleteOptions{GracePeriodSeconds: &grace}))
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
		s.must(s.podAPI().Delete(s.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: &grace}))
	}
	s.eventually("all pods are gone", func() error {
		if n := s.kubelet(); n > 0 {
			return fmt.Errorf("%d pods are left", n)
		}
		return nil
	})
}

// kubelet does what a kubelet and a runtime do on the agent's node, and returns the number of pods
// in the cluster.
func (s *soak) kubelet() int {
	s.Helper()
	s.must(s.allocator.kubelet(s.Context()))
	for uid := range s.running {
		if s.CPUs(groupOf(uid)) != "0-7" {
			s.moved++
		}
	}
	pods, err := s.pods()
	s.must(err)
	return len(pods)
}
