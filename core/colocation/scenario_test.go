package colocation

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/test/golden"
)

// TestScenarios runs testdata/*.txt. A scenario consists of blocks: commands, one per line, then
// "----" and their output. The commands:
//
//	node cpus=16 threshold=65% floor=0.5 objective=1ms
//	    a node with that many shared CPUs, at time 0
//	others 4, others 4 6 2
//	    what the others use from now on; of several numbers one tick each, and again
//	cpus 12
//	    the number of shared CPUs changes
//	batch 4, batch none, batch some
//	    what batch work uses from now on; whether there is any that would use more
//	waited 0.2ms 3ms
//	    what online containers wait from now on; of several, one tick each, and again
//	unsampled, sampled
//	    samples are missing, and there again
//	run 10s
//	    lets time pass, with a tick in each 100 ms; prints each change, and then how many changes of
//	    the budget there were
//	rescue 5s, reset
//	    a scheduler for batch work with that MaxWait, that is loaded again
//	waiting 3s 21s
//	    how long the threads of each pod have waited; prints which pods run in the scheduler
//	after 10s
//	    lets time pass without ticks
//	rescued
//	    prints how often a pod was taken out of the scheduler
func TestScenarios(t *testing.T) {
	golden.Scenarios(t, "testdata/*.txt", func(t *testing.T, text string) string {
		var s scenario
		return golden.Blocks(t, text, s.run)
	})
}

type scenario struct {
	budget *Budget
	tick   Tick
	others []quantity.CPUs
	waited []time.Duration
	last   Decision
	rescue Rescue
	now    time.Time
}

func (s *scenario) run(words []string) (string, error) {
	switch command, args := words[0], words[1:]; command {
	case "node":
		return "", s.node(args)
	case "others":
		s.others = nil
		for _, arg := range args {
			n, err := strconv.ParseFloat(arg, 64)
			if err != nil {
				return "", err
			}
			s.others = append(s.others, quantity.CPUs(n))
		}
		return "", nil
	case "batch":
		if s.tick.NoBatch = args[0] == "none"; s.tick.NoBatch || args[0] == "some" {
			return "", nil
		}
		n, err := strconv.ParseFloat(args[0], 64)
		s.tick.Batch = quantity.CPUs(n)
		return "", err
	case "waited":
		s.waited = nil
		for _, arg := range args {
			d, err := time.ParseDuration(arg)
			if err != nil {
				return "", err
			}
			s.waited = append(s.waited, d)
		}
		return "", nil
	case "cpus":
		var err error
		s.tick.CPUs, err = strconv.Atoi(args[0])
		return "", err
	case "unsampled", "sampled":
		s.tick.Unsampled = command == "unsampled"
		return "", nil
	case "rescue", "after":
		d, err := time.ParseDuration(args[0])
		if command == "rescue" {
			s.rescue = Rescue{MaxWait: d}
			return "", err
		}
		s.now = s.now.Add(d)
		return "", err
	case "reset":
		s.rescue.Reset()
		return "", nil
	case "waiting":
		return s.waiting(args)
	case "rescued":
		return fmt.Sprintf("%d times\n", s.rescue.Count), nil
	case "run":
		d, err := time.ParseDuration(args[0])
		return s.pass(d), err
	default:
		return "", fmt.Errorf("unknown command %q", command)
	}
}

func (s *scenario) waiting(args []string) (string, error) {
	waiting := map[string]time.Duration{}
	for i, arg := range args {
		d, err := time.ParseDuration(arg)
		if err != nil {
			return "", err
		}
		waiting[fmt.Sprint("pod ", i+1)] = d
	}
	inside, outside := s.rescue.Step(s.now, waiting)
	var texts []string
	for _, pod := range slices.Sorted(maps.Keys(waiting)) {
		where := "inside"
		if s.rescue.IsOutside(pod) {
			where = "outside"
		}
		if slices.Contains(inside, pod) == s.rescue.IsOutside(pod) || slices.Contains(outside, pod) != s.rescue.IsOutside(pod) {
			return "", fmt.Errorf("%s is inside %v and outside %v", pod, inside, outside)
		}
		texts = append(texts, pod+" "+where)
	}
	return strings.Join(texts, ", ") + "\n", nil
}

func (s *scenario) node(args []string) error {
	var c Config
	for _, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		if name == "objective" {
			var err error
			if c.Objective, err = time.ParseDuration(value); err != nil {
				return err
			}
			continue
		}
		n, err := strconv.ParseFloat(strings.TrimSuffix(value, "%"), 64)
		if err != nil {
			return err
		}
		switch name {
		case "cpus":
			s.tick = Tick{CPUs: int(n)}
		case "threshold":
			c.Threshold = quantity.Share(n / 100)
		case "floor":
			c.Floor = quantity.CPUs(n)
		}
	}
	s.budget, s.others, s.waited, s.last = New(c), []quantity.CPUs{0}, []time.Duration{0}, Decision{}
	return nil
}

func (s *scenario) pass(d time.Duration) string {
	var out strings.Builder
	changes := 0
	for range d / tickLength {
		s.tick.Now += tickLength
		s.tick.Others = s.others[int(s.tick.Now/tickLength)%len(s.others)]
		s.tick.Waited = s.waited[int(s.tick.Now/tickLength)%len(s.waited)]
		now := s.budget.Step(s.tick)
		if now.Budget != s.last.Budget {
			changes++
		}
		if now != s.last {
			fmt.Fprintf(&out, "%7v budget %.2f, capacity %.1f", s.tick.Now, now.Budget, now.Capacity)
			if now.Threshold != s.budget.config.Threshold {
				fmt.Fprintf(&out, ", threshold %.0f%%", 100*now.Threshold)
			}
			if now.Starved {
				out.WriteString(", starved")
			}
			out.WriteString("\n")
		}
		s.last = now
	}
	fmt.Fprintf(&out, "%s\n", quantity.Count(changes, "change"))
	return out.String()
}

const tickLength = 100 * time.Millisecond
