//go:build !linux

package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

// Control groups are Linux's. The other commands work anywhere: on captured machines and
// on recordings.

func newRun() *cobra.Command { return linuxOnly(runName, "Run a command with CPU settings") }

func newSample() *cobra.Command {
	return linuxOnly("sample", "Record what control groups use, period by period")
}

func newTop() *cobra.Command {
	return linuxOnly("top", "Watch containers use their limits, and being throttled")
}

// linuxOnly stands in for a command that this system has not.
func linuxOnly(name, short string) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: short + " (Linux only)", DisableFlagParsing: true,
		RunE: asked(func(cmd *cobra.Command, _ []string) error {
			return fmt.Errorf("'%s' is about control groups, which Linux has and %s has not: use it on a Linux machine", cmd.CommandPath(), runtime.GOOS)
		}),
	}
}

// runHelper has nothing to help with.
func runHelper([]string) (status int, ok bool) { return 0, false }

// runStatus gives errors of "pinfold run" their status.
func runStatus(err error) error {
	if err == nil {
		return nil
	}
	return &exit{statusOurs, err}
}
