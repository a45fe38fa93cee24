package agent

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/kubepods"
)

// TestWeightOnThisMachine checks that beside a busy neighbour with a request of two CPUs, on the
// same CPU, an agent with a request of 10m gets next to nothing, and a third after it has raised
// its weight. Other weights do not change.
func TestWeightOnThisMachine(t *testing.T) {
	tree := newHostTree(t)
	one, _ := tree.divide()
	tier := tree.root + "/kubepods/burstable"
	tree.write(tree.fs.File(tier, cgroup.CPUSetCPUs), one.String())
	busy := func(name string, shares int) (group string) {
		p := newPod(name, "")
		tree.make(tree.podGroup(p))
		group = tree.podGroup(p) + "/" + containerID('a')
		tree.make(group)
		tree.set(group, cgroup.CPUShares, strconv.Itoa(shares))
		tree.move(tree.spin(group), group, cgroup.CPUSet)
		return group
	}
	agent, neighbour := busy("agent", 10), busy("neighbour", 2048)
	before := tree.shareOf(agent, neighbour)
	k := &kernel{groups: tree.fs, naming: kubepods.Naming{Driver: kubepods.Cgroupfs, Root: tree.root}}
	if err := k.setWeight(agent, true, nil); err != nil {
		t.Fatal(err)
	}
	after := tree.shareOf(agent, neighbour)
	wait := func(share float64) time.Duration {
		return time.Duration(5 / share * float64(time.Millisecond)).Round(time.Millisecond)
	}
	t.Logf("the agent gets %.1f%% of the CPU with the weight of its request, %.1f%% with the raised one: 5 ms of work take %v and %v",
		100*before, 100*after, wait(before), wait(after))
	if want := ownShares / (ownShares + 2048.); before > 0.05 || after < want*2/3 || after > want*3/2 {
		t.Errorf("%.3f of the CPU before, %.3f after; want about 0.005 and %.3f", before, after, want)
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

// shareOf returns the share of one of two busy cgroups in what both use.
func (h *hostTree) shareOf(one, other string) float64 {
	h.t.Helper()
	usage := func(group string) float64 {
		text, err := os.ReadFile(filepath.Join(h.fs.Dir(cgroup.CPUAcct, group), "cpuacct.usage"))
		if err != nil {
			h.t.Fatal(err)
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
		if err != nil {
			h.t.Fatal(err)
		}
		return n
	}
	time.Sleep(200 * time.Millisecond) // the scheduler has balanced the time before
	a, b := usage(one), usage(other)
	time.Sleep(2 * time.Second)
	a, b = usage(one)-a, usage(other)-b
	return a / (a + b)
}
