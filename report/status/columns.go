package status

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/core/status"
)

// column is one column of the table of nodes.
type column struct {
	name string
	text func(*status.Node) string
}

// columns returns the columns of the table, with those of -o wide.
func columns(wide bool) []column {
	all := []column{
		{"NODE", func(n *status.Node) string { return n.Name }},
		{"AGENT", func(n *status.Node) string { return agentText(&n.Agent) }},
		{"CPUS", count(func(c *status.CPUs) int { return c.Online })},
		{"EXCLUSIVE", count(func(c *status.CPUs) int { return c.Exclusive })},
		{"SHARED", count(func(c *status.CPUs) int { return c.Shared })},
		{"CONFINED", count(func(c *status.CPUs) int { return c.Confined })},
		{"PODS", func(n *status.Node) string {
			if n.Pods == nil {
				return unknown
			}
			return strconv.Itoa(*n.Pods)
		}},
	}
	if !wide {
		return all
	}
	return append(all, []column{
		{"REQUESTED", func(n *status.Node) string {
			if n.CPUs == nil {
				return unknown
			}
			return strconv.FormatFloat(n.CPUs.SharedRequests, 'f', -1, 64)
		}},
		{"RESERVED", count(func(c *status.CPUs) int { return c.Reserved })},
		{"OFFLINE", count(func(c *status.CPUs) int { return c.Offline })},
		{"READY", func(n *status.Node) string { return n.Ready }},
		{"CONDITION", func(n *status.Node) string { return conditionText(&n.Condition) }},
		{"TOPOLOGY", func(n *status.Node) string { return strings.ToLower(string(n.Topology)) }},
		{"RENEWED", func(n *status.Node) string {
			if n.Agent.Grace == 0 {
				return unknown
			}
			return age(n.Agent.RenewalAge) + " ago"
		}},
		{"VERSION", func(n *status.Node) string { return cmp.Or(n.Agent.Version, unknown) }},
	}...)
}

// unknown stands for values that are not known, or do not exist.
const unknown = "-"

func count(of func(*status.CPUs) int) func(*status.Node) string {
	return func(n *status.Node) string {
		if n.CPUs == nil {
			return unknown
		}
		return strconv.Itoa(of(n.CPUs))
	}
}

// agentText returns the state of an agent in a few words.
func agentText(a *status.Agent) string {
	text := strings.ToLower(string(a.State))
	switch a.State {
	case status.AgentNoLease:
		text = "no lease"
	case status.AgentSilent:
		text = "silent " + age(a.RenewalAge)
	}
	return text
}

func conditionText(c *status.Condition) string {
	if c.Status == "" {
		return unknown
	}
	return c.Status + " " + c.Reason
}

// age formats an age in seconds.
func age(seconds float64) string { return quantity.Age(time.Duration(seconds * float64(time.Second))) }
