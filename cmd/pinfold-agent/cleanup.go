package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/agent"
	"pinfold.dev/pinfold/cmd/frame"
)

func newCleanup() *cobra.Command {
	var node nodeOptions
	cmd := &cobra.Command{
		Use:   "cleanup [flags]",
		Short: "Restore the control groups to what the kubelet would set",
		Long: `Give all containers of this node all CPUs and the quota that the kubelet would
set, and remove the node's topology object, lease, conditions and capacity for
batch pods. Stop the agent first: it cannot run at the same time.`,
		Example: `  pinfold-agent cleanup --node-name worker-1 --kubeconfig agent.conf`,
		Args:    frame.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var o agent.Options
			if err := node.apply(&o, cmd.ErrOrStderr()); err != nil {
				return err
			}
			result, err := agent.Cleanup(cmd.Context(), o)
			if err == nil || len(result.Written) > 0 {
				fmt.Fprintf(cmd.OutOrStdout(), "%d settings of control groups restored\n", len(result.Written))
			}
			return err
		},
	}
	node.addWriter(cmd.Flags())
	return cmd
}
