package batch

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pinfold.dev/pinfold/agent/control/controltest"
	"pinfold.dev/pinfold/agent/control/groups"
	"pinfold.dev/pinfold/core/colocation"
	"pinfold.dev/pinfold/core/quantity"
)

// TestScenarios runs testdata/*.txt; see [controltest.Node]. The commands of this controller:
//
//	tick 100 others=2 batch=0.5
//	    that many ticks of 100 ms; what batch pods and the others use
//	round
//	    prints the writes
func TestScenarios(t *testing.T) {
	controltest.Scenarios(t, func(n *controltest.Node) func([]string) (string, error) {
		priority, _ := colocation.ParsePriority("idle")
		c := New(priority, colocation.Config{Threshold: 0.65, Floor: 0.5})
		var now time.Duration
		tick := func(args []string) (string, error) {
			count, err := strconv.Atoi(args[0])
			var t colocation.Tick
			for _, arg := range args[1:] {
				name, value, _ := strings.Cut(arg, "=")
				used, wrong := strconv.ParseFloat(value, 64)
				if wrong != nil {
					return "", wrong
				}
				*map[string]*quantity.CPUs{"others": &t.Others, "batch": &t.Batch}[name] = quantity.CPUs(used)
			}
			var b strings.Builder
			for i := range count {
				now += 100 * time.Millisecond
				t.Now, t.CPUs = now, 8
				starved := c.Decision.Starved
				runs := slices.ContainsFunc(n.Round.Planned, func(l groups.Planned) bool { return l.IsBatch() })
				if c.Tick(n.Round.Groups, t, runs) || c.Decision.Starved != starved {
					fmt.Fprintf(&b, "tick %d: budget %.2f, starved %v\n", i+1, float64(c.Decision.Budget), c.Decision.Starved)
				}
			}
			return b.String(), err
		}
		return func(words []string) (string, error) {
			switch words[0] {
			case "tick":
				return tick(words[1:])
			case "round":
				n.Locate()
				n.State.Batch, n.State.BatchBudget = c.Mechanisms(n.Round.Groups), c.Budget()
				n.Plan(nil)
				out := n.Apply(c.Decide(&n.Round))
				n.Round.First = false
				return out, nil
			}
			return "", fmt.Errorf("unknown command %q", words[0])
		}
	})
}
