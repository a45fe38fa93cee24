package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"pinfold.dev/pinfold/cmd/internal/frame"
	"pinfold.dev/pinfold/lab/measure"
)

// The places where services run.
const (
	onGroups  = "groups"
	onCluster = "cluster"
)

// client returns a client of the cluster in a kubeconfig, nil if services run in groups.
func client(place, kubeconfig string) (kubernetes.Interface, error) {
	if place == onGroups {
		return nil, nil //nolint:nilnil // no cluster is needed
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w: start one with 'pinfold-local up --node --kubeconfig FILE', and name the FILE with --kubeconfig", err)
	}
	config.QPS = -1 // no limit of its own: a late request would be a late window
	return kubernetes.NewForConfig(config)
}

// newImages returns the command that makes the images of the programs.
func newImages() *cobra.Command {
	var (
		output  string
		builtIn bool
	)
	command := &cobra.Command{
		Use: "images [flags]", Short: "Make the images of the programs, for a local cluster", Args: frame.NoArguments,
		Long: `Write the images of all programs of the experiments to a directory (OCI image
layout). nginx, Apache httpd and ffmpeg are those of this machine. Give the
directory to 'pinfold-local up --node --images DIR', and then run
experiments with --on cluster.`,
		Example: `  pinfold-lab images -o lab-images`,
		RunE: func(command *cobra.Command, _ []string) error {
			names, err := measure.WriteImages(output, builtIn, func(message string) { fmt.Fprintln(command.ErrOrStderr(), message) })
			if err != nil {
				return err
			}
			slices.Sort(names)
			_, err = fmt.Fprintln(command.OutOrStdout(), strings.Join(names, "\n"))
			return err
		},
	}
	command.Flags().BoolVar(&builtIn, "built-in", false, "leave out the programs that are not part of pinfold-lab")
	command.Flags().StringVarP(&output, "output", "o", "lab-images", "`DIR` of the images; replaced if there are some")
	return command
}
