package schedtrace

import (
	"fmt"
	"testing"

	"pinfold.dev/pinfold/core/blame"
)

// TestPlan: all groups below a subject count for it, or those with the shortest paths if their
// number is limited.
func TestPlan(t *testing.T) {
	ids := map[string]blame.Group{"/": 1, "/a": 2, "/a/pod": 3, "/b": 4}
	for i := range 300 {
		ids[fmt.Sprintf("/a/pod/%03d", i)] = blame.Group(100 + i)
	}
	subjects := map[string]blame.Group{"/a/pod": 3}
	for most, want := range map[int]int{len(ids): 301, mostInner: 256, 1: 1} {
		p := newPlan(ids, subjects, most)
		if len(p.watched) != want || p.watched[3] != 3 || p.above[3] != 2 || p.trace[2] != Quota || p.trace[3] != Threads|Quota || p.watched[4] != 0 {
			t.Errorf("at most %d: %d groups are watched, want %d; above %d, trace %d and %d", most, len(p.watched), want, p.above[3], p.trace[2], p.trace[3])
		}
	}
}
