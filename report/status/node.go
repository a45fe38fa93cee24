package status

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/core/status"
	"pinfold.dev/pinfold/report"
)

// WriteNode prints the state of one node and a map of its CPUs. The report is that of this node.
func WriteNode(w io.Writer, r *status.Report, o Options) error {
	if len(r.Nodes) != 1 {
		return fmt.Errorf("print the status: the report is about %s, not one", quantity.Count(len(r.Nodes), "node"))
	}
	n := &r.Nodes[0]
	p := newPrinter(w, r, o)
	p.fact("Node", n.Name+", "+readyText(n.Ready))
	p.fact("Agent", p.agentFact(&n.Agent))
	if n.Condition.Status != "" {
		p.fact("Condition", conditionText(&n.Condition)+": "+n.Condition.Message)
	}
	if n.CPUs != nil {
		p.fact("CPUs", nodeCPUs(n.CPUs))
	}
	if n.Pods != nil {
		p.fact("Pods", fmt.Sprintf("%d with CPUs", *n.Pods))
	}
	p.remarks()
	p.problems(true)
	if n.Machine == nil {
		return report.Flush(p.Writer, "print the status")
	}
	fmt.Fprintln(p)
	if err := report.Flush(p.Writer, "print the status"); err != nil {
		return err
	}
	options := o.Map
	options.Owners, options.Reserved = owners(n), n.Reserved
	if n.Pods == nil {
		options.Rest = "holder not known"
	}
	return report.MachineMap(w, n.Machine, options)
}

func readyText(ready string) string {
	switch ready {
	case "True":
		return "ready"
	case "False":
		return "not ready"
	}
	return "readiness unknown"
}

func (p *printer) agentFact(a *status.Agent) string {
	parts := []string{agentText(a)}
	switch a.State {
	case status.AgentReports, status.AgentSilent:
		parts = append(parts, version(a.Version), fmt.Sprintf("lease %s renewed %s ago, silent after %s", a.Lease, age(a.RenewalAge), age(a.Grace)))
	case status.AgentGone:
		parts = append(parts, "lease "+a.Lease+" does not exist or does not count")
	case status.AgentNone:
		parts = append(parts, "so no pod gets CPUs of its own here")
	case status.AgentNoLease:
		parts = append(parts, "so whether one runs is not known")
	}
	if a.Pod != "" {
		parts = append(parts, "pod "+a.Pod)
	}
	return strings.Join(parts, ", ")
}

func nodeCPUs(c *status.CPUs) string {
	text := fmt.Sprintf("%s; %v of the shared ones requested or reserved", cpusText(c), c.SharedRequests)
	if c.Offline > 0 {
		text += fmt.Sprintf("; %d offline", c.Offline)
	}
	return text
}

// owners returns the holders of CPUs for a map.
func owners(n *status.Node) []report.Owner {
	var all []report.Owner
	for i := range n.Containers {
		c := &n.Containers[i]
		note := report.Quality(c.Policy, c.Quality)
		if c.Policy == placement.StaticBurst {
			note = fmt.Sprintf("limit %d, %s", c.Limit, note)
		}
		all = append(all, report.Owner{Name: ownerName(n.Containers, c), CPUs: c.CPUs, Confined: c.Policy == placement.StaticBurst, Note: note})
	}
	return all
}

// ownerName returns the name of a container's pod, with the container's if the pod has several.
func ownerName(all []status.Container, c *status.Container) string {
	if slices.ContainsFunc(all, func(o status.Container) bool { return o.Pod == c.Pod && o.Container != c.Container }) {
		return c.Pod + "/" + c.Container
	}
	return c.Pod
}
