package main

import (
	"os"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// newManual returns the command that writes a manual page for each command, for the archives of a
// release.
func newManual() *cobra.Command {
	return &cobra.Command{
		Use:    "manual DIRECTORY",
		Short:  "Write manual pages",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			info, _ := debug.ReadBuildInfo()
			of := doc.GenManHeader{Section: "1", Manual: "Pinfold", Source: "Pinfold " + info.Main.Version, Date: &time.Time{}}
			for _, setting := range info.Settings {
				if at, err := time.Parse(time.RFC3339, setting.Value); err == nil && setting.Key == "vcs.time" {
					of.Date = &at
				}
			}
			cmd.Root().DisableAutoGenTag = true
			return doc.GenManTree(cmd.Root(), &of, args[0])
		},
	}
}
