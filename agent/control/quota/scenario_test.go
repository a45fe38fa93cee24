package quota

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"pinfold.dev/pinfold/agent/control/controltest"
	"pinfold.dev/pinfold/core/burst"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/kube/api"
)

// TestScenarios runs testdata/*.txt; see [controltest.Node]. The commands of this controller:
//
//	leave
//	    another agent starts, with --quota-owner=other
//	tick 100 PATH=5ms, tick 1 PATH=50ms!
//	    that many ticks of 100 ms on idle CPUs, in which a container uses this CPU time; with ! it is
//	    throttled
//	round CHANGED...
//	    prints the writes, and which cgroups are left to another program, which has changed the
//	    bandwidth of these
//	stop
//	    ends all raises
func TestScenarios(t *testing.T) {
	controltest.Scenarios(t, func(n *controltest.Node) func([]string) (string, error) {
		c := New(api.Ceilings{}, false)
		var now time.Duration
		raised := func(path string, period time.Duration) time.Duration {
			return c.QuotaAbove(n.Round.Groups, path, period)
		}
		tick := func(args []string) (string, error) {
			count, err := strconv.Atoi(args[0])
			path, value, _ := strings.Cut(args[1], "=")
			usage, throttled := strings.CutSuffix(value, "!")
			s := trace.Sample{Interval: 100 * time.Millisecond, Periods: 1}
			if s.Usage, _ = time.ParseDuration(usage); throttled {
				s.Throttled = 1
			}
			idle := make([]time.Duration, 8)
			for i := range idle {
				idle[i] = s.Interval
			}
			var b strings.Builder
			for i := range count {
				now += s.Interval
				changes, write := c.Tick(n.Round.Groups, burst.Tick{Now: now, Interval: s.Interval, Idle: idle, BatchCPUs: n.Round.SharedCPUs()},
					n.Round.Now, map[string]trace.Sample{path: s})
				for _, change := range changes {
					fmt.Fprintf(&b, "tick %d: %s quota=%v, write: %v: %s\n", i+1, change.Path, change.Quota, write, change.Reason)
				}
			}
			return b.String(), err
		}
		return func(words []string) (string, error) {
			switch words[0] {
			case "leave":
				c, n.Round.First = New(api.Ceilings{}, true), true
				return "", nil
			case "tick":
				return tick(words[1:])
			case "stop":
				return fmt.Sprintf("write: %v\n", c.LowerAll()), nil
			case "round":
				n.Locate()
				if c.Adopt(&n.Round) {
					n.Plan(raised)
					c.AdoptPaid(&n.Round)
				}
				n.Plan(raised)
				changed := map[string]bool{}
				for _, path := range words[1:] {
					changed[path] = true
				}
				wanted, left := c.Decide(&n.Round, changed)
				out := n.Apply(wanted)
				for _, l := range left {
					out += "left: " + l.Path + "\n"
				}
				c.Applied(n.Round.Groups, n.Round.Now, nil, nil)
				n.Round.First = false
				return out, nil
			}
			return "", fmt.Errorf("unknown command %q", words[0])
		}
	})
}
