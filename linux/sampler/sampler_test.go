package sampler

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgroupstat"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptest"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/race"
)

func TestMain(m *testing.M) { cgrouptest.Main(m) }

// TestDamagedTotal: a total of throttled time that the kernel has once made negative says nothing.
func TestDamagedTotal(t *testing.T) {
	for total, want := range map[time.Duration]trace.Figures{time.Hour: 0, math.MaxInt64: trace.ThrottledTime} {
		stat := &cgroupstat.Stat{ThrottledTime: total}
		if s, ok := difference(stat, stat); !ok || s.Unknown != want {
			t.Errorf("%v: unknown is %v, %v", total, s.Unknown, ok)
		}
	}
}

// TestNoAllocation measures ticks in which no group appears or disappears, on ordinary files and,
// if possible, on those of the kernel.
func TestNoAllocation(t *testing.T) {
	m := newMachine(t, cgroup.V1)
	var groups []string
	for i := range 10 {
		groups = append(groups, fmt.Sprintf("/g%d", i))
		m.make(groups[i], map[string]time.Duration{"quota": time.Duration(i+1) * time.Millisecond})
	}
	t.Run("ordinary files", func(t *testing.T) { testNoAllocation(t, m.open(), groups) })
	t.Run("kernel", func(t *testing.T) {
		fs, err := cgroup.Open("/")
		if err != nil {
			t.Skipf("this machine's control groups cannot be used: %v", err)
		}
		testNoAllocation(t, fs, []string{"/"})
	})
}

func testNoAllocation(t *testing.T, fs *cgroup.FS, groups []string) {
	s := newSampler(t, fs, Options{Interval: time.Millisecond, LimitsEvery: 1})
	s.Set(groups)
	s.start = time.Now()
	next := time.Duration(0)
	tick := func() {
		s.tick.At = next
		s.round(next)
		s.tick.Missed = s.plan(next, next)
		next += time.Millisecond
		s.start = time.Now().Add(-next)
		s.Cost()
	}
	tick()
	tick()
	if allocations := testing.AllocsPerRun(100, tick); allocations != 0 && !race.Enabled {
		t.Errorf("%v allocations per tick", allocations)
	}
	if c := s.Cost(); c.Samples < 100*uint64(len(groups)) || c.Groups != len(groups) {
		t.Errorf("nothing was sampled: %+v", c)
	}
}

func newSampler(t testing.TB, fs *cgroup.FS, o Options) *Sampler {
	t.Helper()
	s := must.Get(New(fs, o))(t)
	t.Cleanup(s.close)
	return s
}

// TestRunEnds checks how Run ends, with the machine's clock.
func TestRunEnds(t *testing.T) {
	m := newMachine(t, cgroup.V2)
	m.make("/a", nil)
	t.Run("consumer", func(t *testing.T) {
		s := newSampler(t, m.open(), Options{Interval: time.Millisecond})
		s.Set([]string{"/a"})
		samples := 0
		var at time.Duration
		err := s.Run(t.Context(), func(tick *Tick) error {
			for _, x := range tick.Samples {
				if x.At-x.Interval != at || x.At < tick.At || x.Interval <= 0 {
					t.Errorf("sample of %v to %v at %v, after one that ended at %v", x.Interval, x.At, tick.At, at)
				}
				at = x.At
			}
			if len(tick.Samples) == 0 {
				at = s.groupAt("/a")
			}
			if samples += len(tick.Samples); samples >= 20 {
				return io.ErrShortWrite
			}
			return nil
		})
		if !errors.Is(err, io.ErrShortWrite) {
			t.Errorf("error %v, want the consumer's", err)
		}
		c := s.Cost()
		if c.Samples != 20 || c.Ticks != 21 || c.Wall < 20*time.Millisecond || c.CPU <= 0 || c.Jitter50 <= 0 ||
			c.Jitter99 < c.Jitter50 || c.JitterMax < c.Jitter99 || c.Share() <= 0 || s.Start().IsZero() {
			t.Errorf("cost %+v, share %v, start %v", c, c.Share(), s.Start())
		}
	})
	t.Run("context", func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		s := newSampler(t, m.open(), Options{Interval: time.Hour})
		ticks := 0
		err := s.Run(ctx, func(*Tick) error {
			ticks++
			stop()
			return nil
		})
		if err != nil || ticks != 1 {
			t.Errorf("%d ticks, error %v; want one and none", ticks, err)
		}
	})
}

// groupAt returns the time at which a group was last read.
func (s *Sampler) groupAt(group string) time.Duration { return s.known[group].at }

func TestRefused(t *testing.T) {
	m := newMachine(t, cgroup.V2)
	m.make("/good", nil)
	m.make("/garbled", nil)
	m.write("/garbled", "cpu.stat", "usage_usec x")
	m.write("/memory-only", "cpu.stat", "usage_usec 1\n")
	m.write("/memory-only", "cgroup.controllers", "memory\n")
	fs := m.open()
	for _, group := range []string{"/good", "/memory-only"} {
		if err := Check(fs, group); err != nil {
			t.Errorf("%s: %v", group, err)
		}
	}
	for group, want := range map[string]string{
		"/none":    "/none: control group does not exist",
		"/garbled": `cpu.stat: usage_usec: "x" is not a number of 64 bits`,
	} {
		if err := Check(fs, group); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", group, err, want)
		}
	}
	for _, interval := range []time.Duration{-1, 1, time.Millisecond - 1} {
		if _, err := New(fs, Options{Interval: interval}); err == nil || CheckInterval(interval) == nil {
			t.Errorf("interval %v: %v, want an error", interval, err)
		}
	}
	if CheckInterval(0) == nil || CheckInterval(time.Millisecond) != nil {
		t.Error("an interval of 0 must be rejected, and one of 1 ms accepted")
	}
}

// TestFollow follows a list that fails after three seconds, and one until the context ends.
func TestFollow(t *testing.T) {
	m := newMachine(t, cgroup.V2)
	fs := m.open()
	synctest.Test(t, func(t *testing.T) {
		s := newSampler(t, fs, Options{})
		began := time.Now()
		lists := 0
		err := s.Follow(t.Context(), time.Second, func() ([]string, error) {
			if lists++; lists == 4 {
				return nil, io.ErrUnexpectedEOF
			}
			return []string{fmt.Sprint("/", lists)}, nil
		})
		if !errors.Is(err, io.ErrUnexpectedEOF) || time.Since(began) != 3*time.Second || !slices.Equal(s.wanted, []string{"/3"}) {
			t.Errorf("%v after %v, wanted %q", err, time.Since(began), s.wanted)
		}
		ctx, stop := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer stop()
		if err := s.Follow(ctx, time.Second, func() ([]string, error) { return nil, nil }); err != nil {
			t.Errorf("followed until the context ended: %v", err)
		}
	})
}

// TestHistogram compares quantiles with those of a sorted list.
func TestHistogram(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfN(rapid.OneOf(rapid.Int64Range(-10, 100), rapid.Int64()), 1, 50).Draw(t, "durations")
		var h histogram
		for i, d := range all {
			h.add(time.Duration(d))
			all[i] = max(d, 0)
		}
		slices.Sort(all)
		q := rapid.Float64Range(0, 1).Draw(t, "q")
		rank := 1
		for float64(rank) < q*float64(len(all)) {
			rank++
		}
		want, got := all[rank-1], int64(h.quantile(q))
		if got < want || float64(got) > 1.125*float64(want)+1e-9 || h.max != time.Duration(all[len(all)-1]) {
			t.Fatalf("quantile %v of %v: %d, want %d; max %d", q, all, got, want, h.max)
		}
	})
	if (&histogram{}).quantile(0.5) != 0 {
		t.Error("the quantile of no durations is not 0")
	}
}

// TestHost samples a group of this machine's kernel with a busy process.
func TestHost(t *testing.T) {
	fs, groups := hostGroups(t, 1)
	s := newSampler(t, fs, Options{Interval: 5 * time.Millisecond})
	s.Set(groups)
	var usage time.Duration
	var periods uint32
	err := s.Run(t.Context(), func(tick *Tick) error {
		if s.tick.At == 0 || len(tick.Samples) == 0 {
			cgrouptest.Start(t, fs, groups[0], "busy", cgroup.CPU, cgroup.CPUAcct)
			return nil
		}
		x := tick.Samples[0]
		usage, periods = usage+x.Usage, periods+x.Periods
		if x.Limits.Quota != 5*time.Millisecond || x.Limits.Period != 50*time.Millisecond {
			return fmt.Errorf("limits %+v", x.Limits)
		}
		// One period can use more than its quota: a virtual CPU that stands still goes on using it.
		if usage >= 20*time.Millisecond && periods >= 4 {
			return io.EOF
		}
		if stat := must.Get(cgroupstat.Read(fs, groups[0]))(t); stat.Usage > usage+time.Second || stat.Periods > uint64(periods)+200 {
			return fmt.Errorf("the kernel has counted %+v, sampled were %v and %d periods", stat, usage, periods)
		}
		return nil
	})
	if !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	// The kernel's counters are the sum of all samples, plus usage after the last one.
	if stat, err := cgroupstat.Read(fs, groups[0]); err != nil || stat.Usage < usage || stat.Periods < uint64(periods) {
		t.Errorf("the kernel has counted %+v, %v; sampled were %v and %d periods", stat, err, usage, periods)
	}
}

// hostGroups creates groups with a limit on this machine.
func hostGroups(t testing.TB, n int) (*cgroup.FS, []string) {
	t.Helper()
	fs := cgrouptest.OpenHost(t)
	top := fmt.Sprintf("/pinfold-sampler-%d", os.Getpid())
	groups := []string{}
	cgrouptest.Make(t, fs, top, cgroup.CPU, cgroup.CPUAcct)
	quota, period := 5*time.Millisecond, 50*time.Millisecond
	wanted := map[string]cgroup.Wanted{}
	for i := range n {
		groups = append(groups, fmt.Sprintf("%s/%d", top, i))
		cgrouptest.Make(t, fs, groups[i], cgroup.CPU, cgroup.CPUAcct)
		wanted[groups[i]] = cgroup.Wanted{Quota: &quota, Period: &period}
	}
	must.Do(t, fs.Apply(wanted).Err())
	return fs, groups
}
