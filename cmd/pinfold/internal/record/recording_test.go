//go:build linux

package record

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/sampler"
	"pinfold.dev/pinfold/tracefile"
)

// TestMemory adds too many samples: the newest are kept.
func TestMemory(t *testing.T) {
	m := newMemory(time.Second, false)
	m.maxKept = 100
	for i := range 1000 {
		for _, g := range []string{"/a", "/b"} {
			at := time.Duration(i+1) * time.Second
			m.add(&tracefile.Row{Group: g, Sample: trace.Sample{At: at, Interval: time.Second, Late: i%10 == 0}})
			if m.kept > m.maxKept {
				t.Fatalf("%d samples are kept, want at most %d", m.kept, m.maxKept)
			}
		}
	}
	if m.samples != 2000 || m.late != 200 || m.longest != 1000 {
		t.Errorf("%d samples, %d late, %d of a group", m.samples, m.late, m.longest)
	}
	for _, s := range m.rec.Series {
		if n := len(s.Samples); n < 20 || s.Samples[n-1].At != 1000*time.Second || len(s.Contiguous(time.Second)) != 1 {
			t.Errorf("group %s: %d samples, want the newest, without gaps", s.Group, n)
		}
	}
	if !strings.Contains(m.note(), "of 2000 samples") || newMemory(time.Second, false).note() != "" {
		t.Errorf("note %q", m.note())
	}
}

func TestProgress(t *testing.T) {
	m := &memory{samples: 30, late: 1, longest: 15}
	for want, o := range map[string]*sampleOptions{
		"[###############...............]  50%  1.5s  30 samples, 1 late": {duration: 3 * time.Second},
		"[##############################] 100%  1.5s  30 samples, 1 late": {samples: 15},
		"1.5s  30 samples, 1 late  (ctrl-C ends)":                         {},
	} {
		if got := o.progressLine(1500*time.Millisecond, m); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestIsOver ends recordings of ten seconds beside groups that were throttled.
func TestIsOver(t *testing.T) {
	r := &session{options: &sampleOptions{duration: 10 * time.Second, interval: 20 * time.Millisecond},
		present: map[string]bool{}, counts: map[string]int{}, catching: map[string]time.Duration{}}
	ticks := make(chan sampler.Tick, 10)
	end := func(at time.Duration, throttled uint32, absent ...sampler.Absent) bool {
		var samples []sampler.Sample
		for _, group := range []string{"/a", "/b"} {
			samples = append(samples, sampler.Sample{Group: group, Sample: trace.Sample{At: at, Interval: 20 * time.Millisecond, Throttled: throttled}})
			throttled = 0
		}
		err := r.take(&sampler.Tick{At: at, Samples: samples, Absent: absent}, ticks)
		<-ticks
		return err != nil
	}
	const ms = time.Millisecond
	if end(9900*ms, 1) || end(10000*ms, 0) || end(10040*ms, 1) || end(10220*ms, 0) || !end(10240*ms, 0) {
		t.Error("it does not end when the group has caught up")
	}
	if end(10900*ms, 1) || !end(11000*ms, 1) {
		t.Error("it does not end a tenth later")
	}
	if end(10050*ms, 1) || !end(10060*ms, 0, sampler.Absent{Group: "/a", Err: cgroup.ErrGone}) {
		t.Error("it waits for a group that is gone")
	}
}

// TestAbsentLines: the number of messages about groups that vanish together is bounded.
func TestAbsentLines(t *testing.T) {
	absent := make([]sampler.Absent, maxAbsentLines+3)
	for i := range absent {
		absent[i] = sampler.Absent{Group: fmt.Sprint("/g", i), Err: cgroup.ErrGone}
	}
	lines := absentLines(time.Second, absent)
	if got, want := lines[len(lines)-1], "pinfold: after 1s: and 3 groups more"; len(lines) != maxAbsentLines+1 || got != want {
		t.Errorf("%d lines, the last %q, want %q", len(lines), got, want)
	}
	if lines := absentLines(time.Second, absent[:maxAbsentLines]); len(lines) != maxAbsentLines || lines[0] != "pinfold: after 1s: control group does not exist" {
		t.Errorf("%q", lines)
	}
}
