package sampler

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/test/must"
)

// BenchmarkSample measures a round over a number of groups of this machine's kernel, with limits
// read as often as at an interval of 100 ms. For comparison it also measures plain reads of the
// same files with open descriptors. Both are in CPU time of the thread, which other load on the
// machine changes least. x-bare is the ratio.
func BenchmarkSample(b *testing.B) {
	for _, n := range []int{100, 250, 1000} {
		b.Run(fmt.Sprintf("groups=%d", n), func(b *testing.B) {
			fs, groups := hostGroups(b, n)
			sampling, bare := sampleAndRead(b, fs, groups, b.Loop)
			b.ReportMetric(float64(sampling)/float64(n), "ns/group")
			b.ReportMetric(float64(bare)/float64(n), "bare-ns/group")
			b.ReportMetric(float64(sampling)/float64(bare), "x-bare")
			b.ReportMetric(0, "ns/op") // would be the wall time of both
		})
	}
}

// sampleAndRead returns the least CPU time of as many rounds of sampling as more allows, and that of
// as many plain reads of the same files, in turn. Other load can only lengthen them.
func sampleAndRead(t testing.TB, fs *cgroup.FS, groups []string, more func() bool) (sampling, bare time.Duration) {
	t.Helper()
	s := newSampler(t, fs, Options{Interval: 100 * time.Millisecond})
	s.Set(groups)
	round := rounds(s)
	read := bareReads(t, fs, groups)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	round()
	sampling, bare = math.MaxInt64, math.MaxInt64
	for more() {
		sampling, bare = min(sampling, cpuTime(round)), min(bare, cpuTime(read))
	}
	if len(s.tick.Samples) != len(groups) {
		t.Errorf("%d samples of %d groups", len(s.tick.Samples), len(groups))
	}
	return sampling, bare
}

// maxRatio is the most that sampling may cost compared with plain reads. The figures are in
// docs/figures.md; this allows for load on the machine, and for the slow clocks of virtual
// machines.
const maxRatio = 4

// TestCostOnThisMachine compares the cost of sampling with that of plain reads in one run.
func TestCostOnThisMachine(t *testing.T) {
	const n, rounds = 100, 200
	fs, groups := hostGroups(t, n)
	left := rounds
	sampling, bare := sampleAndRead(t, fs, groups, func() bool { left--; return left >= 0 })
	ratio := float64(sampling) / float64(bare)
	t.Logf("cgroup version %d: a sample takes %v of CPU time, plain reads of the same files %v: %.2f times as much",
		fs.Layout().CPU, sampling/n, bare/n, ratio)
	if ratio > maxRatio {
		t.Errorf("sampling costs %.2f times as much as plain reads, want at most %d times", ratio, maxRatio)
	}
}

func cpuTime(f func()) time.Duration {
	before := SystemClock{}.CPU()
	f()
	return SystemClock{}.CPU() - before
}

// rounds returns a function that does the sampler's next round at once.
func rounds(s *Sampler) func() {
	next := time.Duration(0)
	return func() {
		s.start = time.Now().Add(-next)
		s.round(next)
		s.plan(next, next)
		next += s.options.Interval
	}
}

// bareReads returns a function that reads the statistics of all groups.
func bareReads(b testing.TB, fs *cgroup.FS, groups []string) func() {
	files := []cgroup.File{cgroup.CPUStat}
	if fs.Layout().CPU == cgroup.V1 {
		files = append(files, cgroup.CPUAcctUsage)
	}
	var open []int
	for _, group := range groups {
		for _, f := range files {
			fd := must.Get(unix.Open(fs.File(group, f), unix.O_RDONLY|unix.O_CLOEXEC, 0))(b)
			b.Cleanup(func() { _ = unix.Close(fd) })
			open = append(open, fd)
		}
	}
	buffer := make([]byte, 1024)
	return func() {
		for _, fd := range open {
			if n, err := unix.Pread(fd, buffer, 0); err != nil || n == 0 {
				b.Fatal(n, err)
			}
		}
	}
}

// BenchmarkRun samples for two seconds at a time. It reports the share of one CPU that the sampler
// used by its own count, that of the whole process, which includes waking up, how late it woke up,
// and how many planned times it missed.
func BenchmarkRun(b *testing.B) {
	for _, run := range []struct {
		groups   int
		interval time.Duration
	}{
		{100, 100 * time.Millisecond}, {100, 10 * time.Millisecond}, {100, time.Millisecond}, {1000, 100 * time.Millisecond},
	} {
		b.Run(fmt.Sprintf("groups=%d,interval=%v", run.groups, run.interval), func(b *testing.B) {
			fs, groups := hostGroups(b, run.groups)
			var total Cost
			var process time.Duration
			for b.Loop() {
				s := newSampler(b, fs, Options{Interval: run.interval})
				s.Set(groups)
				before := processCPU(b)
				if err := s.Run(context.Background(), func(t *Tick) error {
					if t.At > 2*time.Second {
						return io.EOF
					}
					return nil
				}); !errors.Is(err, io.EOF) {
					b.Fatal(err)
				}
				process += processCPU(b) - before
				c := s.Cost()
				total.Wall, total.CPU = total.Wall+c.Wall, total.CPU+c.CPU
				total.Ticks, total.Missed = total.Ticks+c.Ticks, total.Missed+c.Missed
				total.Jitter50, total.Jitter99 = total.Jitter50+c.Jitter50, total.Jitter99+c.Jitter99
			}
			n := float64(b.N)
			b.ReportMetric(100*total.Share(), "%CPU-sampling")
			b.ReportMetric(100*float64(process)/float64(total.Wall), "%CPU-process")
			b.ReportMetric(float64(total.Jitter50.Microseconds())/n, "p50-late-us")
			b.ReportMetric(float64(total.Jitter99.Microseconds())/n, "p99-late-us")
			b.ReportMetric(100*float64(total.Missed)/float64(total.Ticks+total.Missed), "%missed")
		})
	}
}

func processCPU(b *testing.B) time.Duration {
	var used unix.Rusage
	must.Do(b, unix.Getrusage(unix.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
