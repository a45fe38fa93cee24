package agent

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/linux/cputime"
)

func TestBusyBetween(t *testing.T) {
	before := map[cpuset.CPU]cputime.Times{0: {Busy: 100, Total: 1000}, 1: {Busy: 100, Total: 1000}, 2: {Busy: 100, Total: 1000}, 3: {Busy: 100, Total: 1000}}
	after := map[cpuset.CPU]cputime.Times{0: {Busy: 150, Total: 1100}, 1: {Busy: 100, Total: 1100}, 2: {Busy: 90, Total: 1100}, 3: {Busy: 200, Total: 1000}, 4: {Busy: 50, Total: 100}}
	want := map[cpuset.CPU]ledger.MilliCPU{0: 500} // the others are idle, run backwards, or are new
	if d := cmp.Diff(want, busyBetween(before, after)); d != "" {
		t.Error(d)
	}
}

func TestGroupTime(t *testing.T) {
	at := time.Unix(100, 0)
	first := groupTime{time.Second, at}
	for later, want := range map[groupTime]ledger.MilliCPU{
		{2500 * time.Millisecond, at.Add(time.Second)}: 1500,
		{time.Second, at.Add(time.Second)}:             0,
		{0, at.Add(time.Second)}:                       0, // the cgroup was created again
		{2 * time.Second, at}:                          0,
	} {
		if got := first.until(later); got != want {
			t.Errorf("until %v: %v, want %v", later, got, want)
		}
	}
}

func TestIdleBetween(t *testing.T) {
	before := map[cpuset.CPU]cputime.Times{0: {Busy: 100, Total: 1000}, 1: {Busy: 100, Total: 1000}, 2: {Busy: 100, Total: 1000}, 3: {Busy: 100, Total: 1000}}
	after := map[cpuset.CPU]cputime.Times{0: {Busy: 105, Total: 1010}, 1: {Busy: 100, Total: 1100}, 2: {Busy: 90, Total: 1100}, 3: {Busy: 200, Total: 1010}, 5: {Busy: 50, Total: 100}}
	ms := time.Millisecond
	// CPU 1 was not idle for longer than the interval; the times of 2 and 3 run backwards, 4 is
	// offline, and 5 is new.
	want := []time.Duration{50 * ms, 100 * ms, 0, 0, 0, 0}
	if d := cmp.Diff(want, idleBetween(before, after, 100*ms)); d != "" {
		t.Error(d)
	}
}
