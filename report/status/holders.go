package status

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/core/status"
	"pinfold.dev/pinfold/report"
)

// WriteHolders prints which pods of a namespace, or of all (""), have which CPUs: a line for each
// container, or two where the names are too long for the width.
func WriteHolders(w io.Writer, r *status.Report, namespace string, o Options) error {
	p := newPrinter(w, r, o)
	p.unread()
	rows := [][3]string{{"POD", "NODE", "CPUS"}}
	holders := r.Holders(namespace)
	for i := range holders {
		h := &holders[i]
		rows = append(rows, [3]string{report.Printable(holderName(holders, i)), report.Printable(h.Node), holderCPUs(h)})
	}
	unsure, known := r.Unsure(), ""
	if len(unsure) > 0 || len(r.Unread) > 0 {
		known = "is known that "
	}
	switch {
	case len(holders) > 0:
		p.rows(rows)
	case namespace != "":
		fmt.Fprintf(p, "no pod of namespace %s %shas CPUs of its own, or has waited for some on a node for two minutes\n", report.Printable(namespace), known)
	default:
		fmt.Fprintf(p, "no pod %shas CPUs of its own, or has waited for some on a node for two minutes\n", known)
	}
	if len(unsure) > 0 {
		fmt.Fprintf(p, "Not known of the pods of %s: 'pinfold status' says why\n", quantity.Count(len(unsure), "node"))
	}
	return report.Flush(p.Writer, "print the status")
}

// holderName returns the name of a pod, with the container's if several of the pod have CPUs.
func holderName(all []status.Holder, i int) string {
	h := &all[i]
	if i > 0 && all[i-1].Pod == h.Pod || i+1 < len(all) && all[i+1].Pod == h.Pod {
		return h.Pod + "/" + h.Container.Container
	}
	return h.Pod
}

func holderCPUs(h *status.Holder) string {
	switch {
	case h.Lacks != "":
		return "none: " + string(h.Lacks)
	case h.Policy == placement.StaticBurst:
		return fmt.Sprintf("%s, shared, limit %d", h.CPUs, h.Limit)
	}
	return fmt.Sprintf("%s (%s)", h.CPUs, quantity.Count(h.CPUs.Len(), "CPU"))
}

// rows prints a table of three columns. Where it is wider than the output, the second and third are in
// a line of their own.
func (p *printer) rows(rows [][3]string) {
	var widths [3]int
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	between := "  "
	if widths[0]+widths[1]+widths[2]+2*len(between) > max(p.width, report.MinWidth) {
		widths[0], between = 0, "\n  "
	}
	for _, row := range rows {
		line := fmt.Sprintf("%-*s%s%-*s  %s", widths[0], row[0], between, widths[1], row[1], row[2])
		fmt.Fprintln(p, strings.TrimRight(line, " "))
	}
}
