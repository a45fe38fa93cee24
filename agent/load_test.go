package agent

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
)

// statText is the start of /proc/stat of Linux 6.18.
const statText = `cpu  2000 10 500 9000 100 5 15 20 0 0
cpu0 1000 10 250 4500 50 5 10 10 0 0
cpu11 1000 0 250 4500 50 0 5 10 300 0
intr 12345 0 0
ctxt 999
`

func TestParseStat(t *testing.T) {
	got, err := parseStat(strings.NewReader(statText))
	if err != nil {
		t.Fatal(err)
	}
	// Idle and iowait are not busy. The time of guests is contained in user and nice.
	want := map[cpuset.CPU]cpuTimes{0: {busy: 1285, total: 5835}, 11: {busy: 1265, total: 5815}}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(cpuTimes{})); d != "" {
		t.Error(d)
	}
}

func TestParseStatErrors(t *testing.T) {
	for _, text := range []string{"cpux 1 2 3 4 5", "cpu99999999 1 2 3 4 5", "cpu0 1 2", "cpu0 1 2 3 -4 5", "cpu0 1 2 3 four 5"} {
		if got, err := parseStat(strings.NewReader(text)); err == nil {
			t.Errorf("%q gives %v", text, got)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add(statText)
	f.Add("cpu0 1 2 3 4 5 6 7 8 9 10")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseStat(strings.NewReader(text))
		if err != nil {
			return
		}
		for cpu := range got {
			if !cpu.Valid() {
				t.Errorf("CPU %d", cpu)
			}
		}
	})
}

func TestBusyBetween(t *testing.T) {
	before := map[cpuset.CPU]cpuTimes{0: {100, 1000}, 1: {100, 1000}, 2: {100, 1000}, 3: {100, 1000}}
	after := map[cpuset.CPU]cpuTimes{0: {150, 1100}, 1: {100, 1100}, 2: {90, 1100}, 3: {200, 1000}, 4: {50, 100}}
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
	before := map[cpuset.CPU]cpuTimes{0: {100, 1000}, 1: {100, 1000}, 2: {100, 1000}, 3: {100, 1000}}
	after := map[cpuset.CPU]cpuTimes{0: {105, 1010}, 1: {100, 1100}, 2: {90, 1100}, 3: {200, 1010}, 5: {50, 100}}
	ms := time.Millisecond
	// CPU 1 was not idle for longer than the interval; the times of 2 and 3 run backwards, 4 is
	// offline, and 5 is new.
	want := []time.Duration{50 * ms, 100 * ms, 0, 0, 0, 0}
	if d := cmp.Diff(want, idleBetween(before, after, 100*ms)); d != "" {
		t.Error(d)
	}
}
