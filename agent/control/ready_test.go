package control

import (
	"errors"
	"testing"

	"pinfold.dev/pinfold/core/nodeplan"
)

// TestSaving asks about containers while what is allocated to one of them is being saved: that one waits,
// and nothing of it is in force, published or given to others. Others do not wait, and if it cannot be
// saved, it is as if it had not been allocated.
func TestSaving(t *testing.T) {
	for _, failure := range []error{nil, errors.New("no space left on device")} {
		n := newFakeNode()
		n.play(t, "machine cores=4", "pod old app=100m", "runtime old/app", "status old/app", "round", "pod web app=2@?", "pod next app=1@?")
		old, web := nodeplan.Ref{Pod: "uid-old", Container: "app"}, nodeplan.Ref{Pod: "uid-web", Container: "app"}
		n.kernel.makePod("web")
		n.addGroup("web")
		n.observe()
		saving := n.control.Ready(n.now)
		if len(saving.Save) != 1 || saving.Writes != nil {
			t.Fatalf("%+v is ready, not one allocation to save", saving)
		}
		if r := n.control.Ready(n.now, web); !r.Wait || r.Save != nil || r.Writes != nil {
			t.Errorf("%+v is ready for the pod whose allocation is being saved", r)
		}
		n.kernel.makePod("next")
		n.addGroup("next")
		n.observe()
		if text := n.decide(old); text != "nothing to do\n" || len(n.last.Allocations) != 0 || n.last.Created.CPUs.Len() != 0 {
			t.Errorf("before it is saved: %s%+v", text, n.last.Created)
		}
		n.control.Advance(saving, Result{Saved: failure})
		if n.decide(web); n.last.Created.CPUs.Len() != 2 || len(n.last.Allocations) != 2 || len(n.given) != 2 {
			t.Errorf("after the save (%v): %+v, %v in force, %v saved", failure, n.last.Created, n.last.Allocations, n.given)
		}
	}
}
