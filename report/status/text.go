// Package status prints a [status.Report] of package core/status as text:
//
//	err := status.Write(w, report, status.Options{Width: 100})
//
// Problems come first, then pods that wait, then nodes. Long lists are cut, with what is wrong at
// the top, unless Options.Wide is set.
package status

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/core/status"
	"pinfold.dev/pinfold/report"
)

// Options control [Write] and [WriteNode].
type Options struct {
	// Wide prints lists as a whole, and more columns.
	Wide bool
	// Map has the width of lines and the colours of maps.
	Map report.MapOptions
}

// Lengths of lists that are not Wide.
const (
	maxNodes    = 20
	maxProblems = 10 // of one kind
	maxWaiting  = 10
)

// Write prints the state of a cluster.
func Write(w io.Writer, r *status.Report, o Options) error {
	p := newPrinter(w, r, o)
	p.schedulers()
	p.agents()
	p.cpus()
	p.pods()
	p.remarks()
	p.problems(o.Wide)
	p.waiting()
	p.nodes()
	return report.Flush(p.Writer, "print the status")
}

// printer prints one report.
type printer struct {
	*bufio.Writer
	*status.Report
	Options
	width int
}

func newPrinter(w io.Writer, r *status.Report, o Options) *printer {
	return &printer{bufio.NewWriter(w), r, o, cmp.Or(o.Map.Width, report.DefaultWidth)}
}

// indent is that of the values after the names of [report.Line].
const indent = 11

// fact prints a named value, wrapped to the width.
func (p *printer) fact(name, text string) {
	for i, line := range report.Wrap(text, max(p.width, report.MinWidth)-indent) {
		if i > 0 {
			name = ""
		}
		report.Line(p, name, "%s", report.Printable(line))
	}
}

// paragraph prints wrapped text, indented by some spaces, with a mark before the first line.
func (p *printer) paragraph(spaces int, mark, text string) {
	margin := strings.Repeat(" ", spaces)
	for i, line := range report.Wrap(text, max(p.width, report.MinWidth)-spaces-len(mark)) {
		if i > 0 {
			mark = strings.Repeat(" ", len(mark))
		}
		fmt.Fprintf(p, "%s%s%s\n", margin, mark, report.Printable(line))
	}
}

func (p *printer) schedulers() {
	for _, s := range p.Schedulers {
		p.fact("Scheduler", schedulerText(&s))
	}
	if len(p.Schedulers) == 0 && p.read("leases") {
		p.fact("Scheduler", "not found")
	}
	if pods := p.SchedulerPods; pods != nil && pods.Total > 0 {
		p.fact("", fmt.Sprintf("%d of %s labelled pinfold-scheduler ready", pods.Ready, quantity.Count(pods.Total, "pod")))
	}
}

// read reports whether objects of a kind could be read.
func (p *printer) read(resource string) bool {
	return !slices.ContainsFunc(p.Unread, func(u status.Unread) bool { return u.Resource == resource })
}

func schedulerText(s *status.Scheduler) string {
	renewed := "renewed " + age(s.RenewalAge) + " ago"
	if s.RenewalAge < 0 {
		renewed = "renewed in the future"
	}
	switch s.State {
	case status.NoLeader:
		return s.Lease + " has no holder, released " + age(s.RenewalAge) + " ago"
	case status.Silent:
		return fmt.Sprintf("%s: %s is silent, %s, %s", s.Lease, s.Holder, schedulerVersion(s), renewed)
	case status.Replaced:
		return fmt.Sprintf("%s: taken by %s, which is not Pinfold's, %s", s.Lease, s.Holder, renewed)
	}
	return fmt.Sprintf("%s: %s leads, %s, %s", s.Lease, s.Holder, schedulerVersion(s), renewed)
}

func schedulerVersion(s *status.Scheduler) string {
	if s.Kubernetes == "" {
		return version(s.Version)
	}
	return version(s.Version) + ", runs as Kubernetes " + s.Kubernetes
}

func version(text string) string { return cmp.Or(text, "version not recorded") }

func (p *printer) agents() {
	states, versions := map[status.AgentState]int{}, map[string]int{}
	for i := range p.Nodes {
		agent := &p.Nodes[i].Agent
		states[agent.State]++
		if agent.State == status.AgentReports || agent.State == status.AgentSilent {
			versions[version(agent.Version)]++
		}
	}
	parts := []string{}
	for _, s := range []struct {
		state status.AgentState
		text  string
	}{
		{status.AgentReports, "report"}, {status.AgentStarts, "starting"}, {status.AgentSilent, "silent"}, {status.AgentGone, "gone"},
		{status.AgentNoLease, "without a lease"}, {status.AgentUnknown, "unknown"}, {status.AgentNone, "without an agent"},
	} {
		if n := states[s.state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s.text))
		}
	}
	text := quantity.Count(len(p.Nodes), "node")
	if len(parts) > 0 {
		text += ": " + strings.Join(parts, ", ")
	}
	parts = parts[:0]
	for _, v := range slices.Sorted(maps.Keys(versions)) {
		parts = append(parts, fmt.Sprintf("%s on %d", v, versions[v]))
	}
	if len(parts) > 0 {
		text += "; " + strings.Join(parts, ", ")
	}
	if len(p.Nodes) == 0 && !p.read("nodes") {
		text = "not known"
	}
	p.fact("Agents", text)
}

func (p *printer) cpus() {
	var sum status.CPUs
	known := 0
	for i := range p.Nodes {
		if c := p.Nodes[i].CPUs; c != nil {
			known++
			sum.Online, sum.Exclusive = sum.Online+c.Online, sum.Exclusive+c.Exclusive
			sum.Shared, sum.Confined = sum.Shared+c.Shared, sum.Confined+c.Confined
		}
	}
	text := cpusText(&sum) + p.unknownOf(known)
	if known == 0 {
		text = "not known"
	}
	p.fact("CPUs", text)
}

func cpusText(c *status.CPUs) string {
	text := fmt.Sprintf("%d online: %d exclusive, %d shared", c.Online, c.Exclusive, c.Shared)
	if c.Confined > 0 {
		text += fmt.Sprintf(" (limits of static-burst containers: %d)", c.Confined)
	}
	return text
}

func (p *printer) pods() {
	holding, known, lost := 0, 0, 0
	for i := range p.Nodes {
		if pods := p.Nodes[i].Pods; pods != nil {
			holding, known = holding+*pods, known+1
		}
	}
	for i := range p.Problems {
		if kind := p.Problems[i].Kind; kind == status.InvalidAllocation || kind == status.NotAllocated {
			lost++
		}
	}
	text := fmt.Sprintf("%d with CPUs, %d waiting for CPUs", holding, len(p.Waiting))
	if lost > 0 {
		text += fmt.Sprintf(", %d without the CPUs that they asked for", lost)
	}
	if known == 0 && (len(p.Nodes) > 0 || !p.read("nodes") || !p.read("pods")) {
		text = "not known"
	} else {
		text += p.unknownOf(known)
	}
	p.fact("Pods", text)
}

// unknownOf returns the end of a sum over nodes of which so many are known.
func (p *printer) unknownOf(known int) string {
	if known == len(p.Nodes) {
		return ""
	}
	return fmt.Sprintf("; those of %s are not known", quantity.Count(len(p.Nodes)-known, "node"))
}

// unread prints what could not be read.
func (p *printer) unread() {
	for _, u := range p.Unread {
		p.fact("Not read", u.Resource+": "+u.Error)
	}
}

// remarks prints what could not be read, and what the report cannot know.
func (p *printer) remarks() {
	p.unread()
	for _, text := range p.Notes {
		p.fact("Note", text)
	}
}

// problems prints what is wrong, and notes if they are wanted.
func (p *printer) problems(notes bool) {
	problems, warnings, others := p.Of(status.Error), p.Of(status.Warning), p.Of(status.Note)
	if len(problems)+len(warnings)+len(p.Unread) == 0 {
		fmt.Fprintln(p, "\nNo problems.")
	}
	p.list("problem", problems)
	p.list("warning", warnings)
	if notes {
		p.list("note", others)
	} else if len(others) > 0 {
		fmt.Fprintf(p, "\n%s: -o wide prints them\n", quantity.Count(len(others), "note"))
	}
}

// list prints problems of one severity.
func (p *printer) list(what string, problems []status.Problem) {
	if len(problems) == 0 {
		return
	}
	fmt.Fprintf(p, "\n%s\n", quantity.Count(len(problems), what))
	shown := map[status.Kind]int{}
	for i := range problems {
		problem := &problems[i]
		if shown[problem.Kind]++; !p.Wide && shown[problem.Kind] > maxProblems {
			continue
		}
		p.problem(problem)
	}
	for _, kind := range slices.Sorted(maps.Keys(shown)) {
		if n := shown[kind] - maxProblems; !p.Wide && n > 0 {
			fmt.Fprintf(p, "\n  and %d more of kind %s: -o wide prints them\n", n, kind)
		}
	}
}

func (p *printer) problem(problem *status.Problem) {
	head := string(problem.Kind)
	if problem.Node != "" {
		head += ", node " + problem.Node
	}
	if problem.Pod != "" {
		head += ", pod " + problem.Pod
	}
	fmt.Fprintf(p, "\n  %s\n", report.Printable(head))
	p.paragraph(4, "", problem.Message)
	p.paragraph(4, "-> ", problem.Action)
	if problem.Command != "" {
		fmt.Fprintf(p, "       %s\n", report.Printable(problem.Command)) // in one line, to be copied
	}
}

func (p *printer) waiting() {
	if len(p.Waiting) == 0 {
		return
	}
	fmt.Fprintf(p, "\n%s for CPUs\n", waitText(len(p.Waiting)))
	for i := range p.Waiting {
		if !p.Wide && i == maxWaiting {
			fmt.Fprintf(p, "\n  and %d more: -o wide prints them\n", len(p.Waiting)-maxWaiting)
			return
		}
		w := &p.Waiting[i]
		fmt.Fprintf(p, "\n  %s\n", report.Printable(waitingHead(w)))
		p.paragraph(4, "", waitingMessage(w))
	}
}

func waitText(n int) string {
	if n == 1 {
		return "1 pod waits"
	}
	return fmt.Sprintf("%d pods wait", n)
}

// defaultScheduler is the schedulerName that is not worth a word.
const defaultScheduler = "default-scheduler"

func waitingHead(w *status.Waiting) string {
	parts := []string{w.Pod}
	if w.CPUs > 0 {
		parts = append(parts, quantity.Count(w.CPUs, "CPU")+" "+string(w.Policy))
	}
	if w.Scheduler != defaultScheduler {
		parts = append(parts, "scheduler "+w.Scheduler)
	}
	return strings.Join(append(parts, "for "+age(w.Seconds)), ", ")
}

func waitingMessage(w *status.Waiting) string {
	if w.Reason == "" && w.Message == "" {
		return fmt.Sprintf("no scheduler has tried it: does one with the name %q run?", w.Scheduler)
	}
	return cmp.Or(w.Message, w.Reason)
}

// nodes prints a table, with the nodes that have problems first, then those with warnings.
func (p *printer) nodes() {
	if len(p.Nodes) == 0 {
		return
	}
	troubled := map[string]status.Severity{}
	for _, severity := range []status.Severity{status.Warning, status.Error} {
		for _, problem := range p.Of(severity) {
			troubled[problem.Node] = severity
		}
	}
	var listed []*status.Node
	for _, severity := range []status.Severity{status.Error, status.Warning, ""} {
		for i := range p.Nodes {
			if troubled[p.Nodes[i].Name] == severity {
				listed = append(listed, &p.Nodes[i])
			}
		}
	}
	var omitted []*status.Node
	if !p.Wide && len(listed) > maxNodes {
		listed, omitted = listed[:maxNodes], listed[maxNodes:]
	}
	fmt.Fprintln(p)
	p.table(listed)
	if len(omitted) > 0 {
		wrong := 0
		for _, n := range omitted {
			if troubled[n.Name] == status.Error {
				wrong++
			}
		}
		fmt.Fprintf(p, "and %s, %d of them with problems: -o wide prints them\n", quantity.Count(len(omitted), "more node"), wrong)
	}
}

func (p *printer) table(nodes []*status.Node) {
	table := tabwriter.NewWriter(p, 0, 0, 2, ' ', 0)
	var cells []string
	for _, c := range columns(p.Wide) {
		cells = append(cells, c.name)
	}
	fmt.Fprintln(table, strings.Join(cells, "\t"))
	for _, n := range nodes {
		cells = cells[:0]
		for _, c := range columns(p.Wide) {
			cells = append(cells, report.Printable(c.text(n)))
		}
		fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	_ = table.Flush() // the bufio.Writer keeps the error
}
