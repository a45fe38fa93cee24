package quota

import (
	"testing"
	"time"

	"pinfold.dev/pinfold/agent/control/groups"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/linux/cgroup"
)

// TestWritesOfEndedGroupsAreForgotten: without ticks (--sample-interval=0 and no bound for batch
// pods) nothing clears the counts of writes, so each observation must forget groups that have
// ended.
func TestWritesOfEndedGroupsAreForgotten(t *testing.T) {
	c := New(api.Ceilings{}, false)
	r := groups.Round{Groups: &groups.Groups{}, Period: 100 * time.Millisecond}
	for _, group := range []string{"/a", "/b", "/c"} {
		r.Observe(groups.View{Settings: map[string]cgroup.Settings{group: {}}})
		r.Locate(nil)
		c.Adopt(&r)
		w := groups.NewWrites()
		c.Decide(&r, &w)
		c.Applied(&r, &groups.Outcome{Written: []cgroup.Write{{Path: group, File: cgroup.CPUMax, Value: "max"}}})
	}
	if len(c.writes) > 1 {
		t.Errorf("the writes of %d groups are remembered, and there is one: %v", len(c.writes), c.writes)
	}
}
