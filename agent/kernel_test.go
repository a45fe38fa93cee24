package agent

import (
	"testing"
	"time"

	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/linux/kubepods"
)

// TestViewOfInnerGroups reads the groups of two containers of crun, of which one is known.
func TestViewOfInnerGroups(t *testing.T) {
	tree := newTree(t)
	naming := kubepods.Naming{Driver: kubepods.Systemd}
	for _, tier := range nodeplan.Tiers() {
		tree.group(naming.Tier(tier), "-1")
	}
	tree.group(naming.Pod(nodeplan.Burstable, "1"), "-1")
	known := map[string]bool{containerID('a'): true}
	for id, period := range map[string]time.Duration{containerID('a'): 100 * time.Millisecond, containerID('b'): 0} {
		container := naming.Container(nodeplan.Burstable, "1", "cri-containerd", id)
		tree.group(container, "-1")
		tree.group(container+"/container", "20000")
		v, partial, err := view(tree.fs, naming, known, false)
		if err != nil || partial != nil {
			t.Fatal(err, partial)
		}
		if s, ok := v.Settings[container+"/container"]; !ok || s.CPUs.String() != "0-7" || s.Period != period {
			t.Errorf("of the group in %s: %+v, want the period %v", container, s, period)
		}
	}
}
