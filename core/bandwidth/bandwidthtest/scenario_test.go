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
//	write SETTINGS
//	    writes the settings; omitted ones keep their value
//	stats
//	    prints the counters
func TestScenarios(t *testing.T) {
	golden.Scenarios(t, "testdata/*.txt", func(t *testing.T, text string) string {
		var c Controller
		return golden.Blocks(t, text, func(line []string) (string, error) { return run(&c, line[0], line[1:]) })
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

// run runs a command. A Controller is started by the first one.
func run(c *Controller, name string, w words) (text string, err error) {
	switch name {
	case "controller":
		*c, err = NewController(w.over(bandwidth.Limits{Quota: bandwidth.Unlimited, Period: 100 * time.Millisecond}))
	case "write":
		err = c.Write(w.over(c.Limits()))
	case "stats":
		text = formatStats(c.Stats())
	case "step":
		for range number(w.named("times", "1")) {
			used := c.Step(duration(w.plain()))
			text += fmt.Sprintf("used %v%s, bucket %v\n", used, backlog(c.Backlog()), c.pool.runtime)
		}
	case "use":
		used := c.Use(duration(w.plain()))
		text = fmt.Sprintf("used %v%s, bucket %v\n", used, backlog(c.Backlog()), c.pool.runtime)
	case "tick":
		c.Tick()
	default:
		err = fmt.Errorf("no command %q", name)
	}
	return text, err
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
