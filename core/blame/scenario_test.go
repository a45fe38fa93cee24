package blame

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pinfold.dev/pinfold/test/golden"
)

// TestScenarios runs testdata/*.txt. A scenario consists of blocks: commands, one per line, then
// "----" and their output. A group is a letter, a thread its group and number (a1), or that of its
// process and its own (a1.2); "-" is the idle thread. The commands:
//
//	start 10ms a b<p c=a , start 10ms nameless a
//	    a trace of groups a, b and c begins; b is below p; threads of c count for a
//	12ms cpu0 a1 sleeping - , 12ms cpu0 a1 throttled:p c7
//	    a CPU switches from a thread, whose state is given, to another one; @1ms at the end is the
//	    CPU's clock
//	12ms cpu0 a1 sleeping:p - all
//	    the quota of p throttles all threads of p and of groups below it on the CPU
//	12ms cpu0 wakeup a1 waiting c7 , migrate
//	    a thread wants to run, on a CPU that runs another one
//	12ms cpu0 snapshot a1 running
//	12ms cpu0 still a , edge a
//	12ms attach b1 , attach-all b1
//	    the thread, or its process, is in another group now
//	12ms exec a1 2
//	    the thread had the number 2 before
//	12ms loss
//	watch a b<p
//	    these groups are traced from the last event on
//	forget a
//	    nothing is known of the group any more
//	report 100ms
//	    prints where the time went up to a time
func TestScenarios(t *testing.T) {
	golden.Scenarios(t, "testdata/*.txt", func(t *testing.T, text string) string {
		var s scenario
		return golden.Blocks(t, text, s.run)
	})
}

type scenario struct{ analysis *Analysis }

func (s *scenario) run(words []string) (string, error) {
	switch words[0] {
	case "start":
		o := Options{Longest: 3}
		var err error
		if o.Start, err = time.ParseDuration(words[1]); err != nil {
			return "", err
		}
		if o.Nameless = len(words) > 2 && words[2] == "nameless"; o.Nameless {
			words = words[1:]
		}
		o.Watched, o.Above = parseGroups(words[2:])
		s.analysis = New(o)
		return "", nil
	case "watch":
		s.analysis.Watch(parseGroups(words[1:]))
		return "", nil
	case "forget":
		s.analysis.Forget(group(words[1]))
		return "", nil
	case "report":
		to, err := time.ParseDuration(words[1])
		return print(s.analysis.Report(to)), err
	}
	e, err := parseEvent(words)
	s.analysis.Add(e)
	return "", err
}

func parseGroups(words []string) (watched, above map[Group]Group) {
	watched, above = map[Group]Group{}, map[Group]Group{}
	for _, word := range words {
		word, subject, _ := strings.Cut(word, "=")
		name, next, _ := strings.Cut(word, "<")
		watched[group(name)], above[group(name)] = cmp.Or(group(subject), group(name)), group(next)
	}
	return watched, above
}

func parseEvent(words []string) (e Event, err error) {
	if e.Time, err = time.ParseDuration(words[0]); err != nil {
		return e, err
	}
	words = words[1:]
	if e.WholeQueue = words[len(words)-1] == "all"; e.WholeQueue {
		words = words[:len(words)-1]
	}
	if clock, ok := strings.CutPrefix(words[len(words)-1], "@"); ok {
		if e.Clock, err = time.ParseDuration(clock); err != nil {
			return e, err
		}
		words = words[:len(words)-1]
	}
	if n, ok := strings.CutPrefix(words[0], "cpu"); ok {
		if e.CPU, err = strconv.Atoi(n); err != nil {
			return e, err
		}
		words = words[1:]
	}
	kinds := map[string]Kind{"wakeup": Wakeup, "migrate": Migrate, "snapshot": Snapshot, "still": StillThrottled, "edge": Edge,
		"attach": Attach, "attach-all": Attach, "exec": Exec, "loss": Loss}
	var named bool
	if e.Kind, named = kinds[words[0]]; !named {
		e.Kind = Switch
	} else {
		e.Whole = words[0] == "attach-all"
		words = words[1:]
	}
	switch e.Kind {
	case Edge, StillThrottled:
		e.Thread.Group, e.Quota = group(words[0]), &Quota{}
	case Exec:
		e.Thread = parseThread(words[0])
		e.Other.ID, err = strconv.Atoi(words[1])
	case Attach:
		e.Thread = parseThread(words[0])
	case Switch, Wakeup, Migrate, Snapshot:
		e.Thread = parseThread(words[0])
		state, level, _ := strings.Cut(words[1], ":")
		e.Throttler = group(level)
		for e.State = Unknown; e.State.String() != state; e.State++ {
			if e.State > Dead {
				return e, fmt.Errorf("%q is not a state", state)
			}
		}
		if len(words) > 2 {
			e.Other = parseThread(words[2])
		}
	}
	return e, err
}

func group(name string) Group {
	if name == "" {
		return 0
	}
	return Group(name[0]-'a') + 1
}

func parseThread(text string) Thread {
	if text == "-" {
		return Thread{}
	}
	process, id, several := strings.Cut(text[1:], ".")
	p, _ := strconv.Atoi(process)
	t := Thread{ID: p, Process: p, Group: group(text[:1])}
	if several {
		t.ID, _ = strconv.Atoi(id)
	}
	return t
}

func print(r *Report) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%v to %v", r.From, r.To)
	if r.Lost > 0 {
		fmt.Fprintf(&out, ", lost: %v", r.Lost)
	}
	if r.Missed > 0 {
		fmt.Fprintf(&out, ", missed: %d", r.Missed)
	}
	fmt.Fprintln(&out)
	for _, g := range slices.Sorted(maps.Keys(r.Groups)) {
		sum := r.Groups[g]
		fmt.Fprintf(&out, "%s: %s", name(g), sum.text())
		if runnable := sum.Runnable(); sum.Active != runnable {
			fmt.Fprintf(&out, "; active %v", sum.Active)
		}
		if sum.Waited != sum.Waiting() {
			fmt.Fprintf(&out, "; waited %v", sum.Waited)
		}
		fmt.Fprintln(&out)
		printHistogram(&out, "waits", &sum.Waits)
		printHistogram(&out, "throttlings", &sum.Throttlings)
		for i := range sum.Threads {
			fmt.Fprintf(&out, "  %s: %s\n", sum.Threads[i].Thread, sum.Threads[i].text())
		}
		for _, d := range sum.Longest {
			fmt.Fprintf(&out, "  %s from %v: %s\n", d.Thread, d.From, d.text())
		}
	}
	return out.String()
}

func printHistogram(w io.Writer, what string, h *Histogram) {
	if *h == (Histogram{}) {
		return
	}
	fmt.Fprintf(w, "  %s", what)
	for i, n := range h {
		if n > 0 {
			fmt.Fprintf(w, " %d from %v", n, Bucket(i))
		}
	}
	fmt.Fprintln(w)
}

func name(g Group) string { return string(rune('a' + g - 1)) }

func (t Thread) String() string {
	if t.ID == t.Process {
		return fmt.Sprintf("%s%d", name(t.Group), t.ID)
	}
	return fmt.Sprintf("%s%d.%d", name(t.Group), t.Process, t.ID)
}

// text returns the parts that are not 0.
func (p *Parts) text() string {
	var parts []string
	add := func(what string, d time.Duration) {
		if d != 0 {
			parts = append(parts, fmt.Sprint(what, " ", d))
		}
	}
	add("running", p.Running)
	add("stolen", p.Stolen)
	add("throttled", p.Throttled)
	for _, by := range p.Ranked() {
		switch {
		case by.Process < 0:
			add("behind something", p.Behind[by])
		case by.Process == 0:
			add("behind idle", p.Behind[by])
		default:
			add(fmt.Sprintf("behind %s%d", name(by.Group), by.Process), p.Behind[by])
		}
	}
	add("sleeping", p.Sleeping)
	add("unknown", p.Unknown)
	return strings.Join(parts, ", ")
}
