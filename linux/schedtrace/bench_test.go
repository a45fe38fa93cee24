package schedtrace

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/core/blame"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptest"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptree"
	"pinfold.dev/pinfold/linux/sampler"
)

// pingPong makes two threads on one CPU wake each other by pipes, so that each round has two
// context switches. It returns the CPU time per switch.
func pingPong(b testing.TB, rounds int) time.Duration {
	var one unix.CPUSet
	one.Set(0)
	var pipes [2][2]int
	for i := range pipes {
		if err := unix.Pipe2(pipes[i][:], unix.O_CLOEXEC); err != nil {
			b.Fatal(err)
		}
		defer unix.Close(pipes[i][0])
		defer unix.Close(pipes[i][1])
	}
	used := make(chan time.Duration, 2)
	turn := func(read, write int, first bool) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		var before unix.CPUSet
		_ = unix.SchedGetaffinity(0, &before)
		_ = unix.SchedSetaffinity(0, &one)
		defer func() { _ = unix.SchedSetaffinity(0, &before) }()
		begin := sampler.SystemClock{}.CPU()
		token := []byte{0}
		for range rounds {
			if first {
				_, _ = unix.Write(write, token)
			}
			if _, err := unix.Read(read, token); err != nil {
				b.Error(err)
			}
			if !first {
				_, _ = unix.Write(write, token)
			}
		}
		used <- sampler.SystemClock{}.CPU() - begin
	}
	go turn(pipes[1][0], pipes[0][1], true)
	go turn(pipes[0][0], pipes[1][1], false)
	return (<-used + <-used) / time.Duration(2*rounds)
}

// BenchmarkSwitch measures what tracing costs per context switch, with threads that do nothing but
// switch: of groups that are not watched, beside 100 that are, and of one that is. x-untraced is
// the CPU time of the threads compared with that without tracing in the same run. program-ns is the
// time of the program at sched_switch by the kernel's own statistics, which add to it; estimated-ns
// is by [Tracer.Cost].
func BenchmarkSwitch(b *testing.B) {
	fs := cgrouptest.OpenHost(b)
	own := must(cgrouptree.Own(fs, cgroup.CPU))(b)
	for _, watched := range []bool{false, true} {
		b.Run(fmt.Sprintf("watched=%v", watched), func(b *testing.B) {
			const rounds = 20000
			tracer := open(b, Options{})
			for i := range 100 {
				group := newGroup(b, fs, fmt.Sprint("bench", i), 0)
				if err := tracer.Set(blame.Group(must(fs.Inode(cgroup.CPU, group))(b)), Threads|Quota); err != nil {
					b.Fatal(err)
				}
			}
			if watched {
				group := newGroup(b, fs, "watched", 0)
				if err := cgrouptree.Move(fs, group, 0, cgroup.CPU); err != nil {
					b.Fatal(err)
				}
				defer func() { _ = cgrouptree.Move(fs, own, 0, cgroup.CPU) }()
				if err := tracer.Set(blame.Group(must(fs.Inode(cgroup.CPU, group))(b)), Threads|Quota); err != nil {
					b.Fatal(err)
				}
			}
			var with, without time.Duration
			for b.Loop() {
				without += pingPong(b, rounds)
			}
			must(tracer.Start())(b)
			statistics := func() *ebpf.ProgramStats { return must(tracer.kernel.OnSwitch.Stats())(b) }
			ctx, cancel := context.WithCancel(b.Context())
			ended := make(chan error)
			go func() {
				_, err := tracer.Run(ctx, func(blame.Event) {})
				ended <- err
			}()
			for range b.N {
				with += pingPong(b, rounds)
			}
			cost := must(tracer.Cost())(b)
			enabled := must(ebpf.EnableStats(unix.BPF_STATS_RUN_TIME))(b)
			before := statistics()
			for range b.N {
				pingPong(b, rounds)
			}
			measured := statistics()
			_ = enabled.Close()
			cancel()
			if err := <-ended; err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(measured.Runtime-before.Runtime)/float64(measured.RunCount-before.RunCount), "program-ns")
			b.ReportMetric(float64(cost.SwitchTime)/float64(cost.Switches), "estimated-ns")
			b.ReportMetric(float64(with)/float64(without), "x-untraced")
			b.ReportMetric(float64(without)/float64(b.N), "untraced-ns/switch")
			b.ReportMetric(0, "ns/op")
		})
	}
}
