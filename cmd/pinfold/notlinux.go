//go:build !linux

package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/cmd/pinfold/internal/frame"
)

// linuxCommands returns commands that fail: only Linux has cgroups. The other commands work
// everywhere, on captured machines and recordings.
func linuxCommands() []*cobra.Command {
	var commands []*cobra.Command
	for name, short := range map[string]string{
		runName:  "Run a command with CPU settings",
		"sample": "Record what control groups use, period by period",
		"top":    "Watch containers use their limits, and being throttled",
		"why":    "Show why containers are slow: throttled, or waiting for CPUs, and behind what",
	} {
		commands = append(commands, &cobra.Command{
			Use: name, Short: short + " (Linux only)", DisableFlagParsing: true,
			RunE: func(cmd *cobra.Command, _ []string) error {
				return fmt.Errorf("'%s' is about control groups, which Linux has and %s has not: use it on a Linux machine", cmd.CommandPath(), runtime.GOOS)
			},
		})
	}
	return commands
}

// runHelper returns false: there are no helper processes.
func runHelper([]string) (status int, ok bool) { return 0, false }

// runExitStatus gives errors of "run" the same status as on Linux.
func runExitStatus(err error) error {
	if err == nil {
		return nil
	}
	return &frame.Exit{Status: 125, Err: err}
}
