package cgroup

import (
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// sleepEnv makes TestSleep the process that is put into groups, sleeping or busy.
const sleepEnv = "PINFOLD_TEST_SLEEP"

// busy keeps the compiler from removing the busy loop.
var busy atomic.Uint64

// TestSleep is the process that other tests start. It ends when its standard input ends.
func TestSleep(t *testing.T) {
	switch os.Getenv(sleepEnv) {
	case "":
		t.Skip("other tests run this one in a process of its own")
	case "busy":
		go func() {
			for n := uint64(0); ; n++ {
				busy.Store(n)
			}
		}()
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// testHostStat throttles a busy process and checks the statistics.
func testHostStat(t *testing.T, fs *FS, top string) {
	container := top + "/pod/container"
	apply(t, fs, map[string]Wanted{container: {Quota: ms(5), Period: ms(50), Burst: ms(5)}})
	before, err := fs.Stat(container)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(sleepEnv, "busy")
	dirs := []string{fs.Dir(CPU, container)}
	if acct := fs.Dir(CPUAcct, container); fs.Layout().CPU == V1 && acct != dirs[0] {
		dirs = append(dirs, acct)
	}
	sleepIn(t, dirs...)
	var after Stat
	for range 100 { // wait for throttling, at most ten seconds
		time.Sleep(100 * time.Millisecond)
		if after, err = fs.Stat(container); err != nil {
			t.Fatal(err)
		}
		if after.Throttled > before.Throttled+3 {
			break
		}
	}
	if after.Throttled <= before.Throttled || after.Periods < after.Throttled || after.ThrottledTime <= 0 {
		t.Errorf("a busy process with a tenth of a CPU was not throttled: %+v", after)
	}
	if after.Usage < time.Millisecond || after.Usage > time.Minute {
		t.Errorf("usage %v is not that of a throttled process: %+v", after.Usage, after)
	}
	if !after.NoBursts && after.Bursts > 0 && after.BurstTime <= 0 {
		t.Errorf("bursts without time: %+v", after)
	}
	if delays, err := fs.RunDelays(top); err != nil || slices.Max(slices.Collect(maps.Values(delays))) < time.Millisecond {
		t.Errorf("run delays of a throttled process: %v, %v", delays, err)
	}
	pressure, err := fs.Pressure(container)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		t.Log(err) // version 1, or a kernel that does not measure it
	case err != nil || pressure.Total <= 0 || pressure.Total > time.Minute:
		t.Errorf("pressure of a throttled process: %+v, %v", pressure, err)
	}
}
