//go:build linux

package main

import (
	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/cmd/pinfold/internal/record"
	runcommand "pinfold.dev/pinfold/cmd/pinfold/internal/run"
	"pinfold.dev/pinfold/cmd/pinfold/internal/top"
	"pinfold.dev/pinfold/cmd/pinfold/internal/why"
	"pinfold.dev/pinfold/linux/confine"
)

func linuxCommands() []*cobra.Command {
	return []*cobra.Command{runcommand.New(), record.NewSample(), top.New(), why.New()}
}

// runHelper does the work of a helper process of "pinfold run"; see [confine.Helper].
func runHelper(args []string) (status int, ok bool) { return confine.Helper(args) }
