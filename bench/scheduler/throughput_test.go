package main

import (
	"bytes"
	"io"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"pinfold.dev/pinfold/internal/command"
)

// steady returns the times of n bindings at regular intervals.
func steady(first time.Time, n int, every time.Duration) []time.Time {
	times := make([]time.Time, n)
	for i := range times {
		times[i] = first.Add(time.Duration(i) * every)
	}
	return times
}

func TestFigures(t *testing.T) {
	ready := time.Unix(1000, 0)
	first := ready.Add(250 * time.Millisecond)
	even := steady(first, 100, 2*time.Millisecond)
	slowEnds := steady(first, 100, 2*time.Millisecond)
	for i := 5; i < 100; i++ { // one second is lost in the first tenth, one in the last
		slowEnds[i] = slowEnds[i].Add(time.Second)
		if i >= 95 {
			slowEnds[i] = slowEnds[i].Add(time.Second)
		}
	}
	for _, test := range []struct {
		name     string
		times    []time.Time
		all, mid float64
	}{
		{"even", even, 500, 500},
		{"slow at both ends", slowEnds, 99 / 2.198, 500},
	} {
		f := newFigures(ready, test.times, 990*time.Millisecond)
		if math.Abs(f.perSecond-test.all) > 0.01 || math.Abs(f.midSecond-test.mid) > 0.01 {
			t.Errorf("%s: %.2f pods/s, %.2f in the middle, want %.2f and %.2f", test.name, f.perSecond, f.midSecond, test.all, test.mid)
		}
		if f.pods != 100 || f.first != 250*time.Millisecond || f.cpuPerPod != 10*time.Millisecond {
			t.Errorf("%s: %+v, want 100 pods, the first after 250 ms, 10 ms of CPU each", test.name, f)
		}
	}
}

// Lines have the format of golang.org/x/perf/benchfmt: a name without spaces, the number of
// iterations, and pairs of a value and a unit.
func TestLines(t *testing.T) {
	var out bytes.Buffer
	printFigures(&out, 500, variant{name: withPlugin}, figures{2000, 512.34, 498.76, 1702 * time.Microsecond, 310 * time.Millisecond})
	line := out.String()
	if !regexp.MustCompile(`^Benchmark\S+\s+\d+(\s+[\d.]+\s+[^\s\d]\S*)+\n$`).MatchString(line) {
		t.Errorf("not a line of a benchmark: %q", line)
	}
	const want = "BenchmarkScheduler/nodes=500/plugin=pinfold 2000 512.3 pods/s 498.8 mid-pods/s 1702 sched-cpu-µs/pod 310 first-ms"
	if got := strings.Join(strings.Fields(line), " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestTurns(t *testing.T) {
	var order []string
	err := inTurns(4, func(v variant) error {
		order = append(order, v.name)
		return nil
	})
	const want = "pinfold none none pinfold pinfold none none pinfold"
	if got := strings.Join(order, " "); got != want || err != nil {
		t.Errorf("turns %s, %v, want %s", got, err, want)
	}
}

func TestUsage(t *testing.T) {
	before, err := command.UsageOf(os.Getpid())
	if err != nil || before.Now < 1<<20 || before.Peak < before.Now {
		t.Fatalf("%+v, %v", before, err)
	}
	for begun := time.Now(); time.Since(begun) < 10*time.Second; {
		if now, err := command.UsageOf(os.Getpid()); err != nil || now.CPU > before.CPU {
			if err != nil || now.CPU-before.CPU > time.Second {
				t.Errorf("%+v after %+v, %v", now, before, err)
			}
			if _, err := command.UsageOf(1 << 30); err == nil {
				t.Error("a process that does not exist uses something")
			}
			return
		}
	}
	t.Error("a busy process uses no CPU time")
}

func TestOptions(t *testing.T) {
	for _, test := range []struct{ args, err string }{
		{"-nodes 10,20 -pods 50 -count 1 -kubelets", ""},
		{"-nodes 10,", `-nodes: "" is not a number`},
		{"-nodes 0", `-nodes: "0" is not a number`},
		{"-pods 9", "-pods must be 10 or more"},
		{"-scale -rate 100", ""},
		{"-scale -rate 0", "it must be 1 to 1000 pods a second"},
		{"-count 0", "-count 1 or more"},
		{"500", `"500" is not a flag`},
		{"-speed", "flag provided but not defined"},
	} {
		_, err := parseOptions(strings.Fields(test.args), io.Discard)
		if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
			t.Errorf("%s: %v, want %q", test.args, err, test.err)
		}
	}
}
