package bandwidth

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// update, by PINFOLD_UPDATE=1, writes what the scenarios in testdata print into them.
var update = os.Getenv("PINFOLD_UPDATE") != ""

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
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios in testdata: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got, err := transcript(string(text), new(scenario).run)
			if err != nil {
				t.Fatal(err)
			}
			if update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if d := cmp.Diff(string(text), got); d != "" {
				t.Errorf("%s prints something else (-want +got); PINFOLD_UPDATE=1 accepts it:\n%s", file, d)
			}
		})
	}
}

// transcript returns a scenario with what its commands print.
func transcript(text string, run func(name string, words words) (string, error)) (string, error) {
	var out strings.Builder
	printed, skipping := "", false
	for number, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		switch {
		case skipping && line != "":
			continue
		case line == "----":
			out.WriteString("----\n" + printed)
			printed, skipping = "", true
			continue
		case line != "" && !strings.HasPrefix(line, "#"):
			fields := strings.Fields(line)
			result, err := run(fields[0], fields[1:])
			if err != nil {
				return "", fmt.Errorf("line %d: %s: %w", number+1, line, err)
			}
			printed += result
		}
		skipping = false
		out.WriteString(line + "\n")
	}
	if printed != "" {
		return "", errors.New("nothing is expected of the last commands; end them with ----")
	}
	return out.String(), nil
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
		return Unlimited
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
func (w words) over(l Limits) Limits {
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
