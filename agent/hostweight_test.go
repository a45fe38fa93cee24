package agent

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/kubepods"
)

// TestWeightOnThisMachine checks that the agent raises the weight of its own pod, and lowers it again
// when nothing is set any more. Other weights do not change.
func TestWeightOnThisMachine(t *testing.T) {
	tree := newHostTree(t)
	tier := tree.root + "/kubepods/burstable"
	container := func(name string, shares int) (group string) {
		group, _ = tree.container(newPod(name, ""), containerID('a'))
		tree.set(group, cgroup.CPUShares, strconv.Itoa(shares))
		return group
	}
	agent, neighbour := container("agent", 10), container("neighbour", 2048)
	k := &kernel{groups: tree.fs, naming: kubepods.Naming{Driver: kubepods.Cgroupfs, Root: tree.root}}
	if err := k.setWeight(agent, true, nil); err != nil {
		t.Fatal(err)
	}
	for group, want := range map[string]cgroup.Weight{tier: 1024, filepath.Dir(agent): ownShares, agent: 10, neighbour: 2048} {
		if s, err := tree.fs.Read(group); err != nil || s.Weight != want {
			t.Errorf("%s has weight %d, %v; want %d", group, s.Weight, err, want)
		}
	}
	// Nothing is written for a process that is not in a pod or whose weight is high enough.
	writes := tree.fs.Writes()[cgroup.CPUShares]
	for _, own := range []string{agent, neighbour, agent + "/inner", "/system.slice/pinfold-agent.service"} {
		if err := k.setWeight(own, true, nil); err != nil {
			t.Errorf("%s: %v", own, err)
		}
	}
	if again := tree.fs.Writes()[cgroup.CPUShares]; again != writes {
		t.Errorf("%+v writes, then %+v", writes, again)
	}
	// When nothing is set any more, only the agent's own weight is the kubelet's again.
	c := control.New(control.Config{})
	c.SetPods([]*corev1.Pod{newPod("agent", ""), newPod("neighbour", "")})
	for _, own := range []string{agent, neighbour} {
		if err := k.setWeight(own, false, c); err != nil {
			t.Errorf("%s: %v", own, err)
		}
	}
	for group, want := range map[string]cgroup.Weight{filepath.Dir(agent): 102, filepath.Dir(neighbour): 2048} {
		if s, err := tree.fs.Read(group); err != nil || s.Weight != want {
			t.Errorf("%s has weight %d in the end, %v; want %d", group, s.Weight, err, want)
		}
	}
	tree.write(tree.fs.File(tier, cgroup.CPUShares), "12")
	if err := k.setWeight(agent, true, nil); err == nil || !strings.Contains(err.Error(), "CPU request of 100m") {
		t.Errorf("in a tier with 12 shares: %v", err)
	}
}
