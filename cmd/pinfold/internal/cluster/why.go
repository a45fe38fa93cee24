package cluster

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/cmd/internal/frame"
)

// NewWhy returns the plugin's subcommand "why".
func NewWhy() *cobra.Command {
	o := &podOptions{}
	cmd := &cobra.Command{
		Use:   "why POD [flags]",
		Short: "Show why a pod's containers are slow: throttled, or waiting for CPUs, and behind what",
		Long: `Trace the scheduler on the pod's node for a while, and show where the time of
the pod's containers went. 'pinfold why --help' on a node says more.

It runs pinfold in the agent's pod, which takes pods/exec in its namespace, and
an agent that may trace: the chart's agent.tracePercent is more than 0.
Otherwise it prints the command line that traces from a pod of its own.`,
		Example: `  pinfold why web-0
  pinfold why web-0 -n shop --duration 30s -o json`,
	}
	o.addFlags(cmd)
	f := cmd.Flags()
	f.Duration("duration", 10*time.Second, "end after `TIME`")
	f.Float64("max-cost", 5, "end early if tracing uses more than `PERCENT` of the machine's CPU time")
	frame.OutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, stop := frame.Interruptible(cmd.Context())
		defer stop()
		context.AfterFunc(ctx, stop) // a second ctrl-C kills
		s, err := o.open(ctx, args[0])
		if err != nil {
			return err
		}
		flags := given(cmd, "duration", "max-cost", "output")
		if !s.mayTrace() {
			return fmt.Errorf("the agent of node %s may not trace (agent.tracePercent is 0). Trace from a pod of its own:\n  kubectl debug node/%[1]s --profile=sysadmin --image=%s --attach --quiet -- %s",
				s.pod.Spec.NodeName, s.container.Image, strings.Join(s.arguments("why", flags), " "))
		}
		return s.run(ctx, "why", flags, cmd.OutOrStdout(), cmd.ErrOrStderr())
	}
	return cmd
}
