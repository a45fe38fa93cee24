// Command pinfold shows the CPU topology of machines, chooses CPUs, runs commands with CPU
// settings, shows and records the CPU usage of cgroups, explains why they are slow, computes the
// effect of limits and burst, and shows the state of a cluster. Its manuals are docs/pinfold.md and
// docs/status.md.
//
// The command changes nothing on the machine, except files that it is asked to write, the cgroups in
// which "pinfold run" runs a command, and for a while weights ("pinfold sample --weight"). Only "pinfold status" and the plugin use the
// network: the API server. Results go to standard output, messages to standard error. The exit
// status is 0 on success, 1 on failure, and 2 on wrong usage. "pinfold run" exits with the status
// of its command.
//
// Under the name kubectl-pinfold it is a plugin of kubectl, "kubectl pinfold", whose subcommands
// sample, top and why are about pods of the cluster (internal/cluster). Under the name
// kubectl_complete-pinfold it completes the plugin's command line, as kubectl asks it to.
//
// Each group of subcommands is a package: internal/place, internal/record, internal/groups,
// internal/why, internal/model, internal/run, internal/top and internal/status. This package
// assembles them; internal/frame contains what they share.
package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/cmd/pinfold/internal/cluster"
	"pinfold.dev/pinfold/cmd/pinfold/internal/mcp"
	"pinfold.dev/pinfold/cmd/pinfold/internal/model"
	"pinfold.dev/pinfold/cmd/pinfold/internal/place"
	"pinfold.dev/pinfold/cmd/pinfold/internal/record"
	"pinfold.dev/pinfold/cmd/pinfold/internal/status"
)

func main() {
	if status, ok := runHelper(os.Args[1:]); ok {
		os.Exit(status)
	}
	name, args := calledAs(os.Args)
	frame.Main(context.Background(), newRoot(name), args)
}

// The names of the executable as a plugin of kubectl, and as what completes its command line; and
// the name by which the plugin is called.
const (
	pluginFile   = "kubectl-pinfold"
	completeFile = "kubectl_complete-pinfold"
	pluginName   = "kubectl pinfold"
)

// calledAs returns the name by which the user calls the command, and its arguments.
func calledAs(argv []string) (name string, args []string) {
	switch filepath.Base(argv[0]) {
	case pluginFile:
		return pluginName, argv[1:]
	case completeFile:
		return pluginName, append([]string{cobra.ShellCompRequestCmd}, argv[1:]...)
	}
	return "pinfold", argv[1:]
}

// newRoot returns the command. name is its name in help and messages.
func newRoot(name string) *cobra.Command {
	root := &cobra.Command{
		Use:         "pinfold",
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: name},
		Short:       "Choose the right CPUs on a machine, and see why",
		Long: `Show why containers are slow, how they use their limits and are throttled, and
which limits they need. Record what control groups use, period by period, and
compute what limits and burst would do. Show the CPU topology of a machine,
choose CPUs on it by the rules of the scheduler plugin, and run commands with
CPUs, limit and burst of their own. Show the state of Pinfold in a cluster.
Only 'run' and 'sample --weight' change anything on the machine.`,
		Example: `  pinfold advise web.parquet   # which limit and burst does a recorded container need?
  pinfold run --cpus 4 -- make # a command on the best 4 CPUs
  pinfold status               # what is wrong in the cluster?`,
	}
	frame.Lead(root, "Why is a container slow, and which limit does it need?", "why", "top", "advise")
	local := linuxCommands()
	if name == pluginName {
		local = slices.DeleteFunc(local, func(c *cobra.Command) bool { return c.Name() == "sample" || c.Name() == "top" || c.Name() == "why" })
		local = append(local, cluster.NewSample(), cluster.NewTop(), cluster.NewWhy(), mcp.New(), cluster.NewRemovePod())
	}
	commands := slices.Concat([]*cobra.Command{place.NewTopology(), place.NewPlace()}, local, []*cobra.Command{
		record.NewTrace(), model.NewSimulate(), model.NewThrottle(), model.NewAdvise(), status.New(), newManual(),
	})
	return frame.New(root, commands...)
}
