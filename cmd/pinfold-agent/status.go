package main

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/agent"
	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/core/quantity"
)

func newStatus() *cobra.Command {
	var o agent.Options
	cmd := &cobra.Command{
		Use:   "status [flags]",
		Short: "Print the agent's mode, and what it would write",
		Long: `Print the mode of the agent of this machine and, if it observes, what it would
change if it enforced: for each control group the files with their present and
their wanted content. It needs root.`,
		Example: `  pinfold-agent status
  pinfold-agent status --host-root /host -o json`,
		Args: frame.NoArguments,
	}
	output := frame.OutputFlag(cmd)
	cmd.Flags().StringVar(&o.Root, "host-root", "/", "`DIR` where the machine's root directory is mounted")
	cmd.Flags().StringVar(&o.RunDir, "run-dir", "", "the agent's --run-dir, a `DIR` (default: run/pinfold below --host-root)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		report, err := agent.ReadReport(o)
		if err != nil {
			return err
		}
		if *output == frame.JSON {
			return frame.PrintJSON(cmd.OutOrStdout(), report)
		}
		return writeReport(cmd.OutOrStdout(), &report, time.Now())
	}
	return cmd
}

func writeReport(w io.Writer, r *agent.Report, now time.Time) error {
	would := "nothing would change"
	switch {
	case r.Hold:
		would = "it changes nothing yet: its log says why"
	case r.Mode == agent.Enforce:
		would = "its metrics and the node's condition say what it does"
	case len(r.Pending) > 0:
		would = "it would change " + quantity.Count(len(r.Pending), "control group")
	}
	_, err := fmt.Fprintf(w, "node %s, mode %s, last round %s ago: %s\n", r.Node, r.Mode, quantity.Age(now.Sub(r.Time)), would)
	for i := 0; i < len(r.Pending) && err == nil; i++ {
		err = writePending(w, &r.Pending[i])
	}
	return err
}

func writePending(w io.Writer, p *control.Pending) error {
	about := p.Group
	if p.Pod != "" {
		about = "pod " + p.Pod + " " + about
	}
	if p.Container != "" {
		about = "container " + p.Container + " of " + about
	}
	_, err := fmt.Fprintln(w, about)
	for _, f := range p.Files {
		if err == nil {
			_, err = fmt.Fprintf(w, "  %s: %s -> %s\n", f.File, cmp.Or(f.Now, "(empty)"), cmp.Or(f.Wanted, "(empty)"))
		}
	}
	return err
}
