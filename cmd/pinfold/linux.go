//go:build linux

package main

import (
	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/cmd/pinfold/internal/record"
	runcommand "pinfold.dev/pinfold/cmd/pinfold/internal/run"
	"pinfold.dev/pinfold/cmd/pinfold/internal/top"
	"pinfold.dev/pinfold/cmd/pinfold/internal/why"
	"pinfold.dev/pinfold/linux/confine"
	"pinfold.dev/pinfold/linux/weight"
)

func linuxCommands() []*cobra.Command {
	return []*cobra.Command{runcommand.New(), record.NewSample(), top.New(), why.New()}
}

// runHelper does the work of a helper process of "pinfold run" or "pinfold sample"; see
// [confine.Helper] and [weight.Helper].
func runHelper(args []string) (status int, ok bool) {
	if status, ok = weight.Helper(args); ok {
		return status, ok
	}
	return confine.Helper(args)
}
