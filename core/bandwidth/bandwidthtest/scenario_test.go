package bandwidthtest

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/test/golden"
)

// TestScenarios runs testdata/*.txt. A scenario is a sequence of blocks: commands, one
// a line, then "----" and what they print. Lines that begin with # are for the reader.
// Settings are quota=20ms (or none), period=100ms and burst=20ms. The commands:
//
//	controller SETTINGS
//	    begins anew, with a Controller
//	step DEMAND [times=N]
//	    a period, or several alike
//	use DEMAND, tick
//	    a period in parts
//	fluid CPUS SETTINGS, kernel CPUS SETTINGS [tick=4ms] [slice=5ms] [phase=0s] [turn=3ms]
//	    begins anew, with a Group; phase is that of the ticks
//	request WORK [cpu=N] [times=N]
//	until TIME
//	    lets time go by and prints what finished
//	write SETTINGS
//	    what is not named stays; it is written all the same
//	rewrite every=20ms until=3s
//	    lets time go by and writes the same settings again and again
//	stats
func TestScenarios(t *testing.T) {
	golden.Scenarios(t, "testdata/*.txt", func(t *testing.T, text string) string {
		var s scenario
		got, err := golden.Blocks(text, func(line []string) (string, error) { return s.run(line[0], line[1:]) })
		if err != nil {
			t.Fatal(err)
		}
		return got
	})
}

// words are the arguments of a command; what cannot be read is a broken test.
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

// over returns settings of which some are replaced.
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
