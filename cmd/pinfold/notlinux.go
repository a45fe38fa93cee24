//go:build !linux

package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/cmd/frame"
)

// linuxCommands returns commands that fail: only Linux has cgroups. The other commands work
// everywhere, on captured machines and recordings.
func linuxCommands() []*cobra.Command {
	var commands []*cobra.Command
	for _, about := range []struct {
		name, short string
		status      int
	}{
		{"run", "Run a command with CPU settings", 125}, // as on Linux
		{"sample", "Record what control groups use, period by period", 1},
		{"top", "Watch containers use their limits, and being throttled", 1},
		{"why", "Show why containers are slow: throttled, or waiting for CPUs, and behind what", 1},
	} {
		commands = append(commands, &cobra.Command{
			Use: about.name, Short: about.short + " (Linux only)", DisableFlagParsing: true,
			RunE: func(cmd *cobra.Command, _ []string) error {
				return &frame.ExitError{Status: about.status, Err: fmt.Errorf("'%s' is about control groups, which Linux has and %s has not: use it on a Linux machine", cmd.CommandPath(), runtime.GOOS)}
			},
		})
	}
	return commands
}

// runHelper returns false: there are no helper processes.
func runHelper([]string) (status int, ok bool) { return 0, false }
