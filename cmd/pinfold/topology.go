package main

import (
	"os"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/report"
	"pinfold.dev/pinfold/report/terminal"
)

func newTopology() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "topology [--sysfs PATH | --machine FILE] [-o text|json]",
		Short: "Show a machine: packages, NUMA nodes, caches, cores, CPUs",
		Long: `Show a machine: its packages, NUMA nodes, last-level caches (LLCs), cores, CPUs.

As text it is a map with one character per CPU; the numbers before a row say
which CPUs these are. As JSON it is a machine file, which --machine reads.`,
		Example: `  pinfold topology
  pinfold topology -o json > machine.json
  pinfold topology --machine machine.json
  pinfold topology --sysfs /tmp/copy-of-sys
  pinfold topology capture -o machine.txtar`,
		Args:                  noCommand,
		DisableFlagsInUseLine: true,
	}
	from := sourceFlags(cmd, "/sys")
	output := outputFlag(cmd)
	cmd.RunE = asked(func(cmd *cobra.Command, _ []string) error {
		if err := from.check(cmd.Flags()); err != nil {
			return err
		}
		m, err := from.read(cmd.InOrStdin())
		if err != nil {
			return err
		}
		if output.value == outJSON {
			return printJSON(cmd.OutOrStdout(), m)
		}
		return report.MachineMap(cmd.OutOrStdout(), m, terminal.MapOptions(cmd.OutOrStdout(), os.Getenv))
	})
	cmd.AddCommand(newCapture())
	return cmd
}
