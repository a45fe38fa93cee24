package node

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptree"
	"pinfold.dev/pinfold/local/localcluster"
	"pinfold.dev/pinfold/local/supervisor"
	"pinfold.dev/pinfold/test/must"
)

// testKill kills a component. Running containers keep their settings, and the next pod gets its
// settings as soon as the component has restarted.
func (s *settled) testKill(t *testing.T, component string) {
	before := s.pid(t, component)
	processes := s.processes(t)
	s.killProcess(t, before)
	s.awaitSuccessor(t, component, before)
	name := "after-" + component
	must.Do(t, s.create(t, podOf(name, "", container("main", "8001", "250m"))))
	defer s.remove(t, name)
	pod := s.awaitRunning(t, name)
	want := settings{cpus: s.shared, quota: 25 * time.Millisecond}
	eventually(t, "settings of a pod that came later", func() error { return s.kernel.expectSingle(pod, want) })
	if err := s.check(); err != nil {
		t.Error(err)
	}
	if after := s.processes(t); !slices.Equal(processes, after) {
		t.Errorf("processes of containers changed from %v to %v: some were restarted", processes, after)
	}
}

// killProcess kills a process, and checks for half a second that all settings persist.
func (s *settled) killProcess(t *testing.T, pid int) {
	t.Helper()
	must.Do(t, syscall.Kill(pid, syscall.SIGKILL))
	for end := time.Now().Add(500 * time.Millisecond); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if err := s.check(); err != nil {
			t.Fatalf("right after the kill: %v", err)
		}
	}
}

// awaitSuccessor waits until a component is ready in another process.
func (s *cluster) awaitSuccessor(t *testing.T, component string, before int) {
	t.Helper()
	defer s.logFailure(t, component)
	eventually(t, component+" is back", func() error {
		state, err := localcluster.ReadState(s.dir)
		now, _ := state.Component(component)
		if err == nil && (now.PID == 0 || now.PID == before || now.State != supervisor.Ready) {
			err = fmt.Errorf("%+v", now)
		}
		return err
	}, s.cpuTime)
}

// logFailure logs the last lines of a component's log if the test has failed.
func (s *cluster) logFailure(t *testing.T, component string) {
	if !t.Failed() {
		return
	}
	state, err := localcluster.ReadState(s.dir)
	status, _ := state.Component(component)
	text, err2 := os.ReadFile(status.Log)
	lines := strings.Split(string(text), "\n")
	t.Logf("the log of %s ends (%v):\n%s", component, errors.Join(err, err2), strings.Join(lines[max(0, len(lines)-60):], "\n"))
}

// processes returns the processes of the settled pods' containers.
func (s *settled) processes(t *testing.T) (all []int) {
	t.Helper()
	for name, containers := range s.rows() {
		for container := range containers {
			if container == "" {
				continue
			}
			all = append(all, s.kernel.processesOf(t, s.pods[name], container)...)
		}
	}
	slices.Sort(all)
	return all
}

// processesOf returns the processes of a container.
func (k kernel) processesOf(t *testing.T, pod *corev1.Pod, container string) []int {
	t.Helper()
	all, err := cgrouptree.ProcessesIn(k.groups.Dir(cgroup.CPUSet, k.containerGroup(pod, container)))
	if err != nil || len(all) == 0 {
		t.Fatalf("%s/%s has processes %v: %v", pod.Name, container, all, err)
	}
	return all
}
