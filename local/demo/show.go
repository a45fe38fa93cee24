package demo

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/report"
)

// underline returns a heading with a line below it.
func underline(heading string) string {
	return heading + "\n" + strings.Repeat("=", utf8.RuneCountInString(heading)) + "\n"
}

// show writes the report of a round.
func (v *view) show(out Output, heading string, all []placed, maps bool) error {
	if _, err := fmt.Fprintln(out.Writer, underline(heading)); err != nil {
		return err
	}
	if maps {
		for _, node := range v.names {
			if err := v.drawNode(out, node, all); err != nil {
				return err
			}
		}
	}
	_, err := fmt.Fprintf(out.Writer, "%s\n\n", summary(all))
	return err
}

func (v *view) drawNode(out Output, node string, all []placed) error {
	options := out.Map
	for _, p := range all {
		if p.node != node || p.policy == "" {
			continue
		}
		options.Owners = append(options.Owners, report.Owner{
			Name: p.name, CPUs: p.cpus, Confined: p.policy == placement.StaticBurst, Note: p.note(),
		})
	}
	if _, err := fmt.Fprintf(out.Writer, "Node %s: %s\n", node, quantity.Count(len(options.Owners), "placed container")); err != nil {
		return err
	}
	if err := report.MachineMap(out.Writer, v.indexes[node].Machine(), options); err != nil {
		return fmt.Errorf("draw node %s: %w", node, err)
	}
	_, err := fmt.Fprintln(out.Writer)
	return err
}

// note describes the quality of a placement by its criteria.
func (p placed) note() string {
	own := report.Quality(p.policy, p.own)
	if p.policy == placement.StaticBurst {
		own = fmt.Sprintf("limit %d, %s", p.wants, own)
	}
	if p.optimal() {
		return own + ": best possible"
	}
	return fmt.Sprintf("%s (on an empty node %s)", own, report.Quality(p.policy, p.best))
}

// summary summarizes a round in a few sentences.
func summary(all []placed) string {
	asked, optimal := 0, 0
	var lines []string
	for _, p := range all {
		if p.policy == "" {
			lines = append(lines, fmt.Sprintf("%s runs on all shared CPUs of %s (%s).", p.name, p.node, p.cpus))
			continue
		}
		asked++
		if p.optimal() {
			optimal++
		}
	}
	slices.Sort(lines)
	if asked > 0 {
		lines = append(lines, fmt.Sprintf("%d of %s placed as well as on an empty node.", optimal, quantity.Count(asked, "container")))
	}
	return strings.Join(lines, "\n")
}
