package node

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptree"
	"pinfold.dev/pinfold/local/localnode"
	"pinfold.dev/pinfold/test/must"
)

// testStarting samples the CPUs that the threads of pods may use while pods start: none, including
// runc init and pause, is ever allowed on the static pod's CPU. For that, the agent must act
// between the creation of the pod's cgroup and of its sandbox. A busy machine does not let it run in
// that time for each pod; without the agent every pod would be found.
func (s *settled) testStarting(t *testing.T) {
	const most, enough = 20, 4
	right := 0
	for i := range most {
		name := fmt.Sprintf("starting-%d", i)
		seen := s.seenOn(t, func() {
			s.run(t, podOf(name, "", container("main", "8001", "100m")))
			s.remove(t, name)
		})
		if len(seen) > 0 {
			t.Logf("%s was on CPUs %s: %s", name, s.own, strings.Join(seen, "; "))
		} else if right++; right == enough {
			return
		}
	}
	if right == 0 {
		t.Errorf("all of %d pods were on CPUs %s while they started", most, s.own)
	} else {
		t.Skipf("disturbed: the agent was too late for %d of %d pods; run this test with less other load", most-right, most)
	}
}

// seenOn samples while a function runs, and returns who was allowed on the static pod's CPUs.
func (s *settled) seenOn(t *testing.T, do func()) []string {
	t.Helper()
	owner := s.kernel.podGroup(s.pods["static"])
	seen, samples := map[string]time.Duration{}, 0
	ctx, cancel := context.WithCancel(t.Context())
	var sampling sync.WaitGroup
	sampling.Go(func() {
		for at := time.Now(); ctx.Err() == nil; samples++ {
			now := time.Now()
			for _, thread := range s.kernel.threadsOn(s.own, owner) {
				seen[thread] += now.Sub(at)
			}
			at = now
			time.Sleep(time.Millisecond)
		}
	})
	do()
	cancel()
	sampling.Wait()
	var all []string
	if samples < 20 {
		all = append(all, fmt.Sprintf("only %d samples", samples))
	}
	for _, thread := range slices.Sorted(maps.Keys(seen)) {
		all = append(all, fmt.Sprintf("%s for %v", thread, seen[thread].Round(time.Millisecond)))
	}
	return all
}

// threadsOn returns the threads of pods that are allowed on some CPUs, except for one pod's.
func (k kernel) threadsOn(cpus cpuset.Set, except string) (found []string) {
	pods, err := k.naming.Pods(k.groups)
	if err != nil {
		return nil
	}
	for _, pod := range pods {
		if pod.Path == except {
			continue
		}
		groups := append([]string{pod.Path}, pod.Others...)
		for _, c := range pod.Containers {
			groups = append(groups, c.Path)
		}
		for _, group := range groups {
			threads, _ := cgrouptree.Threads(k.groups, group) // its cgroup may have been removed
			for _, thread := range threads {
				if allowed, err := allowedCPUs(thread); err == nil && allowed.Intersects(cpus) {
					comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", thread))
					found = append(found, fmt.Sprintf("%s (%d)", strings.TrimSpace(string(comm)), thread))
				}
			}
		}
	}
	return found
}

// awaitAnotherContainer waits until the first container of a pod runs with another id.
func (s *settled) awaitAnotherContainer(t *testing.T, name string) (pod *corev1.Pod) {
	t.Helper()
	before := s.pods[name].Status.ContainerStatuses[0].ContainerID
	eventually(t, "the container starts again", func() (err error) {
		pod, err = s.client.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{})
		if err == nil && (pod.Status.ContainerStatuses[0].State.Running == nil || pod.Status.ContainerStatuses[0].ContainerID == before) {
			err = fmt.Errorf("%+v", pod.Status.ContainerStatuses)
		}
		return err
	})
	s.pods[name] = pod
	return pod
}

// testUnanswered stops the agent, so that it does not answer the runtime in time, and restarts a
// container: it gets the shared CPUs of its pod's cgroup.
func (s *settled) testUnanswered(t *testing.T) {
	agent := s.pid(t, localnode.Agent)
	processes, err := cgrouptree.ProcessesIn(s.kernel.groups.Dir(cgroup.CPUSet, s.kernel.containerGroup(s.pods["limited"], "main")))
	if err != nil || len(processes) == 0 {
		t.Fatalf("processes %v, %v", processes, err)
	}
	must.Do(t, syscall.Kill(agent, syscall.SIGSTOP))
	resume := sync.OnceFunc(func() { _ = syscall.Kill(agent, syscall.SIGCONT) })
	defer resume()
	must.Do(t, syscall.Kill(processes[0], syscall.SIGKILL))
	pod := s.awaitAnotherContainer(t, "limited")
	if err := s.kernel.expectContainer(pod, "main", settings{cpus: s.shared, quota: 50 * time.Millisecond}); err != nil {
		t.Errorf("without an answer of the agent: %v", err)
	}
	resume()
	eventually(t, "settings after the agent continues", s.check)
}
