package cgroup

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/must"
)

// TestPlan plans the scenarios of testdata/plan.txt. Each is a file of the archive: "layout CPU
// CPUSET" with the versions, then groups, "PATH NAME=PRESENT>WANTED ...", and after "=>" the
// writes.
func TestPlan(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/plan.txt")
	if err != nil || len(archive.Files) == 0 {
		t.Fatal("no scenarios", err)
	}
	for i, f := range archive.Files {
		t.Run(f.Name, func(t *testing.T) {
			scenario, _, _ := strings.Cut(string(f.Data), "=>\n")
			l, changes := readScenario(t, scenario)
			writes, err := Plan(l, changes)
			got := listed(writes)
			if err != nil {
				got += fmt.Sprintf("error: %v\n", err)
			}
			archive.Files[i].Data = []byte(scenario + "=>\n" + got)
		})
	}
	golden.Compare(t, "testdata/plan.txt", string(txtar.Format(archive)))
}

func readScenario(t *testing.T, text string) (l Layout, changes []Change) {
	t.Helper()
	for line := range strings.Lines(text) {
		if _, err := fmt.Sscanf(line, "layout %d %d", &l.CPU, &l.CPUSet); err == nil {
			continue
		}
		words := strings.Fields(line)
		c := Change{Path: words[0], Present: Settings{Limits: bandwidth.Limits{Quota: bandwidth.Unlimited, Period: 100 * time.Millisecond}}}
		for _, word := range words[1:] {
			name, values, _ := strings.Cut(word, "=")
			present, wanted, want := strings.Cut(values, ">")
			c.readWord(t, name, present, wanted, want)
		}
		changes = append(changes, c)
	}
	return l, changes
}

func (c *Change) readWord(t *testing.T, name, present, wanted string, want bool) {
	t.Helper()
	quantity := func(s string) time.Duration {
		if s == "max" {
			return bandwidth.Unlimited
		}
		return must.Get(time.ParseDuration(s))(t)
	}
	amount := func(value *time.Duration, wish **time.Duration) {
		if *value = quantity(present); want {
			*wish = new(quantity(wanted))
		}
	}
	switch name {
	case "cpus":
		if c.Present.CPUs = cpuset.MustParse(present); want {
			c.Wanted.CPUs = new(cpuset.MustParse(wanted))
		}
	case "quota":
		amount(&c.Present.Quota, &c.Wanted.Quota)
	case "period":
		amount(&c.Present.Period, &c.Wanted.Period)
	case "burst":
		amount(&c.Present.Burst, &c.Wanted.Burst)
	case "exclusive":
		if c.Present.Exclusive = cpuset.MustParse(present); want {
			c.Wanted.Exclusive = new(cpuset.MustParse(wanted))
		}
	case "partition":
		state := must.Get(parsePartition(strings.ReplaceAll(present, "-", " ")))(t)
		if c.Present.Partition = state; want {
			c.Wanted.Partition = new(Partition(wanted))
		}
	case "idle":
		if c.Present.Idle = present == "1"; want {
			c.Wanted.Idle = new(wanted == "1")
		}
	default:
		t.Fatalf("%q is not a setting", name)
	}
}
