package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"pinfold.dev/pinfold/agent/uninstall"
	"pinfold.dev/pinfold/cmd/frame"
)

func newUninstall() *cobra.Command {
	var kubeconfig string
	var daemonSets []string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "uninstall [flags]",
		Short: "Clean up all nodes, before the agents are removed from the cluster",
		Long: `Make every pod of the agents' DaemonSets end its agent and clean up its node,
and wait until all nodes are done. The DaemonSets remain, and so do their pods,
until you delete them. While pods have claims for CPUs, nothing is changed. If a
node is down, the command fails after --timeout and names it; the node is
cleaned up when it is back, or when it is started anew.
"helm uninstall" runs this command.`,
		Example: `  pinfold-agent uninstall --daemonset pinfold-system/pinfold-agent`,
		Args:    frame.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			names, err := daemonSetNames(daemonSets)
			if err != nil {
				return err
			}
			if timeout <= 0 {
				return frame.Usagef("--timeout must be more than 0")
			}
			config, err := restConfig(kubeconfig)
			if err != nil {
				return err
			}
			client, err := kubernetes.NewForConfig(config)
			if err != nil {
				return fmt.Errorf("make a client: %w", err)
			}
			ctx, cancel := context.WithTimeoutCause(cmd.Context(), timeout, fmt.Errorf("waited %v", timeout))
			defer cancel()
			return uninstall.Run(ctx, uninstall.Options{
				Client: client, DaemonSets: names,
				Progress: func(text string) { fmt.Fprintln(cmd.OutOrStdout(), text) },
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig `FILE` (default: the pod's service account)")
	flags.StringArrayVar(&daemonSets, "daemonset", nil, "a DaemonSet of agents, `NAMESPACE/NAME`; can be repeated")
	flags.DurationVar(&timeout, "timeout", 5*time.Minute, "wait at most `TIME` for all nodes")
	return cmd
}

// daemonSetNames parses the values of --daemonset.
func daemonSetNames(values []string) (names []types.NamespacedName, err error) {
	for _, value := range values {
		namespace, name, _ := strings.Cut(value, "/")
		if namespace == "" || name == "" || strings.Contains(name, "/") {
			return nil, frame.Usagef("--daemonset %q: give a DaemonSet of agents as NAMESPACE/NAME", value)
		}
		names = append(names, types.NamespacedName{Namespace: namespace, Name: name})
	}
	if len(names) == 0 {
		return nil, frame.Usagef("give --daemonset NAMESPACE/NAME, the DaemonSet of the agents")
	}
	return names, nil
}

// newWait returns the command that the DaemonSet's pods run after the cleanup.
func newWait() *cobra.Command {
	return &cobra.Command{
		Use:   "wait",
		Short: "Wait until stopped, as the pods of uninstall do after the cleanup",
		Long:  "Do nothing until SIGTERM or ctrl-C.", Example: "  pinfold-agent wait",
		Args: frame.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			<-cmd.Context().Done()
			return nil
		},
	}
}
