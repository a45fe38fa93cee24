package allocate

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pinfold.dev/pinfold/agent/control/controltest"
	"pinfold.dev/pinfold/agent/control/pods"
	"pinfold.dev/pinfold/core/ledger"
)

// TestScenarios runs testdata/*.txt; see [controltest.Node]. The commands of this controller:
//
//	agent repack=cores
//	    starts an agent
//	decide
//	    prints the CPUs of all pods that have some, and what was moved
func TestScenarios(t *testing.T) {
	controltest.Scenarios(t, func(n *controltest.Node) func([]string) (string, error) {
		c := start(n, RepackNone)
		return func(words []string) (string, error) {
			switch words[0] {
			case "agent":
				given := c.given
				c = New("n1", true, Repack(strings.TrimPrefix(words[1], "repack=")))
				c.given = given
				return "", nil
			case "decide":
				return decide(n, c), nil
			}
			return "", fmt.Errorf("unknown command %q", words[0])
		}
	})
}

// start returns the controller of a node without pods.
func start(n *controltest.Node, repack Repack) *Controller {
	c := New("n1", true, repack)
	n.Pods = pods.New(pods.Config{Given: c.Given()})
	n.Pods.SetMachine(n.State.Index.Machine())
	return c
}

func decide(n *controltest.Node, c *Controller) (out string) {
	n.Locate()
	c.Decide(&n.Round, n.Pods, n.State.Index, ledger.Config{}, "")
	c.Saved(n.Pods, nil)
	for _, uid := range slices.Sorted(maps.Keys(c.given.Pods)) {
		for _, container := range c.given.Pods[uid].Containers {
			out += fmt.Sprintf("%s/%s %s, ", strings.TrimPrefix(string(uid), "uid-"), container.Name, container.CPUs)
		}
	}
	out = strings.TrimSuffix(out, ", ") + "\n"
	if m := c.Moved(); m != nil {
		out += fmt.Sprintf("%s is %s\n", m.Pod.Name, m.Text)
	}
	return out
}
