package sampler

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/must"
)

// TestScenarios plays testdata/*.txtar on machines of both versions, which must give the same
// result. "script" has the lines
//
//	interval 100ms              sets the interval; without it, groups have their own periods
//	spacing 50ms                sets the spacing of groups with the same parent
//	make GROUP NAME=VALUE...    creates a group: quota, period, burst, and the names of add
//	add GROUP NAME=VALUE...     adds to counters: usage, periods, throttled, time, bursts, bursttime; or sets a limit
//	reset GROUP                 sets its counters to 0
//	garble GROUP                makes its cpu.stat unreadable
//	remove GROUP
//	want GROUP...               calls Sampler.Set
//	tick NAME=VALUE...          wakes up, late by "late"; each reading of the clock takes "slow", and the consumer
//	                            takes "busy"; repeated "times" times
//
// "want" are the ticks that the consumer got.
func TestScenarios(t *testing.T) {
	golden.Archives(t, "testdata/*.txtar", "want", func(t *testing.T, archive *txtar.Archive) string {
		said := play(t, cgroup.V1, string(archive.Files[0].Data))
		if diff := cmp.Diff(said, play(t, cgroup.V2, string(archive.Files[0].Data))); diff != "" {
			t.Errorf("-version 1 +version 2:\n%s", diff)
		}
		return said
	})
}

// player is a clock that plays a script whenever the sampler waits.
type player struct {
	t       *testing.T
	machine *machine
	sampler *Sampler
	script  []string
	stop    context.CancelFunc
	now     time.Time
	slow    time.Duration // duration of a reading of the clock
	busy    time.Duration // duration of a call of the consumer
	ticked  int           // repetitions of the present line so far
	cpu     time.Duration
	said    strings.Builder
}

func play(t *testing.T, v cgroup.Version, script string) string {
	ctx, stop := context.WithCancel(t.Context())
	p := &player{t: t, machine: newMachine(t, v), stop: stop, now: time.Unix(1_800_000_000, 0)}
	options := Options{Clock: p}
	for line := range strings.Lines(script) {
		if text, ok := strings.CutPrefix(line, "interval "); ok {
			options.Interval = parse(t, strings.TrimSpace(text))
		} else if text, ok := strings.CutPrefix(line, "spacing "); ok {
			options.Spacing = parse(t, strings.TrimSpace(text))
		} else if strings.TrimSpace(line) != "" {
			p.script = append(p.script, line)
		}
	}
	var err error
	if p.sampler, err = New(p.machine.open(), options); err != nil {
		t.Fatal(err)
	}
	must.Do(t, p.sampler.Run(ctx, p.consume))
	c := p.sampler.Cost()
	fmt.Fprintf(&p.said, "cost: groups %d absent %d, ticks %d missed %d, samples %d late %d gaps %d, wall %v, jitter %v %v\n",
		c.Groups, c.Absent, c.Ticks, c.Missed, c.Samples, c.Late, c.Gaps, c.Wall, c.Jitter50, c.JitterMax)
	return p.said.String()
}

func (p *player) Now() time.Time {
	p.now = p.now.Add(p.slow)
	return p.now
}

func (p *player) CPU() time.Duration {
	p.cpu += time.Millisecond
	return p.cpu
}

func (p *player) Alarm(context.Context) (Alarm, error) { return p, nil }
func (p *player) Close()                               {}

// Wait plays the script up to the next tick.
func (p *player) Wait(until time.Time) error {
	p.slow, p.busy = 0, 0
	for len(p.script) > 0 {
		words := strings.Fields(p.script[0])
		if words[0] != "tick" {
			p.script = p.script[1:]
			p.do(words[0], words[1:])
			continue
		}
		values := p.values(words[1:])
		if p.ticked++; p.ticked >= int(values["times"]) {
			p.script, p.ticked = p.script[1:], 0
		}
		if until.After(p.now) {
			p.now = until
		}
		p.now, p.slow, p.busy = p.now.Add(values["late"]), values["slow"], values["busy"]
		return nil
	}
	p.stop()
	return context.Canceled
}

func (p *player) do(word string, words []string) {
	switch word {
	case "want":
		p.sampler.Set(words)
	case "make":
		p.machine.make(words[0], p.values(words[1:]))
	case "add":
		p.machine.add(words[0], p.values(words[1:]))
	case "reset":
		p.machine.reset(words[0])
	case "garble":
		p.machine.write(words[0], "cpu.stat", "nr_periods many\n")
	case "remove":
		p.machine.remove(words[0])
	default:
		p.t.Fatalf("unknown word %q", word)
	}
}

func (p *player) values(words []string) map[string]time.Duration {
	values := map[string]time.Duration{}
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		values[name] = parse(p.t, value)
	}
	return values
}

// parse parses a duration or a number.
func parse(t *testing.T, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(text)
	if err != nil {
		d, err = time.ParseDuration(text + "ns")
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (p *player) consume(tick *Tick) error {
	fmt.Fprintf(&p.said, "%v", tick.At)
	if tick.Missed > 0 {
		fmt.Fprintf(&p.said, " missed %d", tick.Missed)
	}
	p.said.WriteString("\n")
	for _, s := range tick.Samples {
		fmt.Fprintf(&p.said, "  %s %s\n", s.Group, describe(s))
	}
	for _, a := range tick.Absent {
		fmt.Fprintf(&p.said, "  absent %s: %s\n", a.Group, p.machine.said(a.Err))
	}
	p.now = p.now.Add(p.busy)
	return nil
}

// describe returns a sample as text, without fields that are 0.
func describe(s Sample) string {
	text := fmt.Sprintf("%v", s.Interval)
	add := func(format string, value any) {
		if said := fmt.Sprint(value); said != "0" && said != "0s" {
			text += fmt.Sprintf(format, value)
		}
	}
	add(" usage %v", s.Usage)
	add(" periods %v", s.Periods)
	add(" throttled %v", s.Throttled)
	add(" for %v", s.ThrottledTime)
	add(" bursts %v", s.Bursts)
	add(" of %v", s.BurstTime)
	if _, limited := s.Limits.CPUs(); limited {
		add(" quota %v", s.Limits.Quota)
	}
	add(" period %v", s.Limits.Period)
	add(" burst %v", s.Limits.Burst)
	if s.Late {
		text += " late"
	}
	return text
}
