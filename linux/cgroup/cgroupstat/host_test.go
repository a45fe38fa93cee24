package cgroupstat

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptest"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptree"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/race"
	"pinfold.dev/pinfold/test/wait"
)

func TestMain(m *testing.M) { cgrouptest.Main(m) }

func controllers() []cgroup.Controller {
	return []cgroup.Controller{cgroup.CPU, cgroup.CPUAcct}
}

// TestHost runs the tests below on this machine's kernel, of either version, in a group of its own.
func TestHost(t *testing.T) {
	for name, test := range map[string]func(*testing.T, *cgroup.FS, string){
		"reader": testHostReader, "statistics": testHostStat,
		"statistics/kept open": func(t *testing.T, fs *cgroup.FS, group string) {
			fs.KeepOpen()
			defer fs.Close()
			testHostStat(t, fs, group)
		},
	} {
		t.Run(name, func(t *testing.T) {
			fs := cgrouptest.OpenHost(t)
			group := fmt.Sprintf("/pinfold-test-stat-%d", os.Getpid())
			cgrouptest.Make(t, fs, group, controllers()...)
			test(t, fs, group)
		})
	}
}

func apply(t *testing.T, fs *cgroup.FS, group string, w cgroup.Wanted) {
	t.Helper()
	must.Do(t, fs.Apply(map[string]cgroup.Wanted{group: w}).Err())
}

func ms(n int) *time.Duration { return new(time.Duration(n) * time.Millisecond) }

// testHostStat throttles a busy process and checks the statistics.
func testHostStat(t *testing.T, fs *cgroup.FS, container string) {
	apply(t, fs, container, cgroup.Wanted{Quota: ms(5), Period: ms(50), Burst: ms(5)})
	before, err := Read(fs, container)
	if err != nil {
		t.Fatal(err)
	}
	cgrouptest.Start(t, fs, container, "busy", controllers()...)
	var after Stat
	wait.Until(t, "a busy process with a tenth of a CPU is throttled", func() error {
		if after, err = Read(fs, container); err == nil && after.Throttled <= before.Throttled+3 {
			return fmt.Errorf("%+v", after)
		}
		return err
	})
	if after.Periods < after.Throttled || after.ThrottledTime <= 0 || after.Usage < time.Millisecond {
		t.Errorf("a throttled process: %+v", after)
	}
	if !after.NoBursts && after.Bursts > 0 && after.BurstTime <= 0 {
		t.Errorf("bursts without time: %+v", after)
	}
	if delays, err := RunDelays(fs, container, 100); err != nil || slices.Max(slices.Collect(maps.Values(delays))) < time.Millisecond {
		t.Errorf("run delays of a throttled process: %v, %v", delays, err)
	}
	pressure, err := ReadPressure(fs, container)
	switch {
	case errors.Is(err, errors.ErrUnsupported): // version 1, or a kernel that does not measure it
		r, s := openStat(t, fs, container), Stat{}
		r.ReadWaits(1, 1e-6) // the second reading comes in time all the same
		wait.True(t, "a throttled process waits", func() bool {
			must.Do(t, r.Read(&s))
			return s.Waited > 0
		})
	case err != nil || pressure.Total <= 0:
		t.Errorf("pressure of a throttled process: %+v, %v", pressure, err)
	default:
		r, s := openStat(t, fs, container), Stat{}
		r.ReadWaits(1, 1)
		if err := r.Read(&s); err != nil || s.Waited < pressure.Total {
			t.Errorf("waited for %v, %v; want %v or more", s.Waited, err, pressure.Total)
		}
	}
}

// testHostReader reads a group from its creation to its removal and replacement, and checks
// that reading does not allocate.
func testHostReader(t *testing.T, fs *cgroup.FS, group string) {
	r := openStat(t, fs, group)
	expectLimits := func(want bandwidth.Limits) {
		t.Helper()
		if l, err := r.Limits(); err != nil || l != want {
			t.Errorf("limits %+v, %v; want %+v", l, err, want)
		}
	}
	expectLimits(bandwidth.Limits{Quota: bandwidth.Unlimited, Period: 100 * time.Millisecond})
	apply(t, fs, group, cgroup.Wanted{Quota: ms(5), Period: ms(50), Burst: ms(4)})
	expectLimits(bandwidth.Limits{Quota: 5 * time.Millisecond, Period: 50 * time.Millisecond, Burst: 4 * time.Millisecond})

	var s Stat
	if allocations := testing.AllocsPerRun(100, func() {
		must.Do(t, r.Read(&s))
		must.Get(r.Limits())(t)
	}); allocations != 0 && !race.Enabled {
		t.Errorf("reading allocates %v times", allocations)
	}
	whole, err := Read(fs, group)
	before := s // the period that began with the quota may end between two reads
	must.Do(t, r.Read(&s))
	if err != nil || whole != before && whole != s {
		t.Errorf("an idle group reads %+v, then %+v and, opened anew in between, %+v, %v", before, s, whole, err)
	}

	must.Do(t, cgrouptree.Remove(t.Context(), fs, group, controllers()...))
	must.Do(t, cgrouptree.Make(fs, group, controllers()...))
	if err := r.Read(&s); !errors.Is(err, cgroup.ErrGone) {
		t.Errorf("reading a group that was replaced: %v, want %v", err, cgroup.ErrGone)
	}
	if _, err := r.Limits(); !errors.Is(err, cgroup.ErrGone) {
		t.Errorf("limits of a group that was replaced: %v, want %v", err, cgroup.ErrGone)
	}
	if err := openStat(t, fs, group).Read(&s); err != nil {
		t.Errorf("opened anew: %v", err)
	}
	if _, err := Open(fs, group+"/none"); !errors.Is(err, cgroup.ErrGone) {
		t.Errorf("a group that never existed: %v, want %v", err, cgroup.ErrGone)
	}
	if l, err := openStat(t, fs, "/").Limits(); err != nil || l.Quota != bandwidth.Unlimited {
		t.Errorf("the root group: %+v, %v, want no quota", l, err)
	}
}

func openStat(t *testing.T, fs *cgroup.FS, group string) *Reader {
	t.Helper()
	r := must.Get(Open(fs, group))(t)
	t.Cleanup(r.Close)
	return r
}
