package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/cmd/internal/version"
)

func newVersion() *cobra.Command {
	cmd := &cobra.Command{
		Use:                   "version [-o text|json]",
		Short:                 "Say which pinfold this is",
		Args:                  noArguments,
		DisableFlagsInUseLine: true,
	}
	output := outputFlag(cmd)
	cmd.RunE = asked(func(cmd *cobra.Command, _ []string) error {
		if output.value == outJSON {
			return printJSON(cmd.OutOrStdout(), version.This())
		}
		_, err := fmt.Fprintln(cmd.OutOrStdout(), version.Of("pinfold"))
		return err
	})
	return cmd
}
