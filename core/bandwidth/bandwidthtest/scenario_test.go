package bandwidthtest

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/test/golden"
)

// TestScenarios runs testdata/*.txt. A scenario consists of blocks: commands, one per line, then
// "----" and their output. Lines that begin with # are comments. Settings are quota=20ms (or none),
// period=100ms and burst=20ms. The commands:
//
//	controller SETTINGS
//	    starts a Controller
//	step DEMAND [times=N]
//	    simulates one or several periods
//	use DEMAND, tick
//	    simulates parts of a period
//	fluid CPUS SETTINGS, kernel CPUS SETTINGS [tick=4ms] [slice=5ms] [phase=0s] [turn=3ms]
//	    starts a Group; phase is the phase of the ticks
//	request WORK [cpu=N] [times=N]
//	    submits requests
//	until TIME
//	    advances the time and prints the finished requests
//	write SETTINGS
//	    writes the settings; omitted ones keep their value
//	rewrite every=20ms until=3s
//	    advances the time and writes the same settings again and again
//	stats
//	    prints the counters
func TestScenarios(t *testing.T) {
	golden.Scenarios(t, "testdata/*.txt", func(t *testing.T, text string) string {
		var s scenario
		return golden.Blocks(t, text, func(line []string) (string, error) { return s.run(line[0], line[1:]) })
	})
}

// words are the arguments of a command. Unreadable ones panic.
type words []string

// plain returns the first word without a name.
func (w words) plain() string {
	for _, word := range w {
		if !strings.Contains(word, "=") {
			return word
		}
	}
	return ""
}

func (w words) named(name, otherwise string) string {
	for _, word := range w {
		if value, ok := strings.CutPrefix(word, name+"="); ok {
			return value
		}
	}
	return otherwise
}

func duration(s string) time.Duration {
	if s == "none" {
		return bandwidth.Unlimited
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		panic(err)
	}
	return d
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

// over returns the limits with the given settings replaced.
func (w words) over(l bandwidth.Limits) bandwidth.Limits {
	for _, word := range w {
		switch name, value, _ := strings.Cut(word, "="); name {
		case "quota":
			l.Quota = duration(value)
		case "period":
			l.Period = duration(value)
		case "burst":
			l.Burst = duration(value)
		}
	}
	return l
}

// scenario is the model that the commands act on: a Controller or a Group.
type scenario struct {
	controller *Controller
	group      *Group
	submitted  []time.Duration // times
}

func (s *scenario) run(name string, w words) (string, error) {
	switch name {
	case "controller", "fluid", "kernel":
		return "", s.begin(name, w)
	case "write":
		if s.group != nil {
			return "", s.group.Write(w.over(s.group.Limits()))
		}
		return "", s.controller.Write(w.over(s.controller.Limits()))
	case "stats":
		if s.group != nil {
			return formatStats(s.group.Stats()), nil
		}
		return formatStats(s.controller.Stats()), nil
	}
	if s.group != nil {
		return s.runGroup(name, w)
	}
	return s.runController(name, w)
}

func (s *scenario) begin(name string, w words) (err error) {
	*s = scenario{}
	l := w.over(bandwidth.Limits{Quota: bandwidth.Unlimited, Period: 100 * time.Millisecond})
	if name == "controller" {
		var c Controller
		c, err = NewController(l)
		s.controller = &c
		return err
	}
	m := Fluid(number(w.plain()))
	if name == "kernel" {
		m = Kernel(number(w.plain()))
		m.Tick = duration(w.named("tick", m.Tick.String()))
		m.Slice = duration(w.named("slice", m.Slice.String()))
		m.TickPhase = duration(w.named("phase", "0s"))
		m.Turn = duration(w.named("turn", m.Turn.String()))
	}
	s.group, err = NewGroup(m, l)
	return err
}

func (s *scenario) runController(name string, w words) (string, error) {
	c := s.controller
	switch name {
	case "step":
		var b strings.Builder
		for range number(w.named("times", "1")) {
			used := c.Step(duration(w.plain()))
			fmt.Fprintf(&b, "used %v%s, bucket %v\n", used, backlog(c.Backlog()), c.pool.runtime)
		}
		return b.String(), nil
	case "use":
		used := c.Use(duration(w.plain()))
		return fmt.Sprintf("used %v%s, bucket %v\n", used, backlog(c.Backlog()), c.pool.runtime), nil
	case "tick":
		c.Tick()
		return "", nil
	}
	return "", fmt.Errorf("a controller has no such command")
}

func (s *scenario) runGroup(name string, w words) (string, error) {
	switch name {
	case "request":
		for range number(w.named("times", "1")) {
			s.group.Submit(Request{Work: duration(w.plain()), CPU: number(w.named("cpu", "-1"))})
			s.submitted = append(s.submitted, s.group.Now())
		}
		return "", nil
	case "until":
		return s.advance(duration(w.plain())), nil
	case "rewrite":
		return s.rewrite(duration(w.named("every", "")), duration(w.named("until", "")))
	}
	return "", fmt.Errorf("a group has no such command")
}

func (s *scenario) advance(until time.Duration) string {
	var b strings.Builder
	before := s.group.Stats().Usage
	for _, d := range s.group.Advance(until) {
		fmt.Fprintf(&b, "request %d finished at %v, after %v\n", d.ID, d.At, d.At-s.submitted[d.ID])
	}
	fmt.Fprintf(&b, "%v: used %v%s", until, s.group.Stats().Usage-before, backlog(s.group.Backlog()))
	if n := len(s.group.throttled); n > 0 {
		fmt.Fprintf(&b, ", %d CPUs throttled", n)
	}
	return b.String() + "\n"
}

func (s *scenario) rewrite(every, until time.Duration) (string, error) {
	before := s.group.Stats().Usage
	for s.group.Now() < until {
		s.group.Advance(s.group.Now() + every)
		if err := s.group.Write(s.group.Limits()); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%v: used %v%s\n", until, s.group.Stats().Usage-before, backlog(s.group.Backlog())), nil
}

func backlog(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return fmt.Sprintf(", backlog %v", d)
}

func formatStats(s Stats) string {
	return fmt.Sprintf("used %v; periods %d by wall, %d by timer, %d throttled (%v); %d bursts (%v)\n",
		s.Usage, s.WallPeriods, s.Periods, s.Throttled, s.ThrottledTime, s.Bursts, s.BurstTime)
}
