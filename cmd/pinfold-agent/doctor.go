package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"pinfold.dev/pinfold/agent/doctor"
	"pinfold.dev/pinfold/agent/kubelet"
	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/nodetopology"
)

// clusterTimeout is the time limit for each request of doctor to the cluster.
const clusterTimeout = 10 * time.Second

func newDoctor() *cobra.Command {
	var node nodeOptions
	options := doctor.Defaults()
	cmd := &cobra.Command{
		Use:   "doctor [flags]",
		Short: "Check that this node meets the agent's requirements, and say what to do",
		Long: `Check the kernel, the control groups, the machine, the kubelet, the container
runtime and other programs that manage CPUs on this node. For each check print
what was found and what to do about it. Nothing is changed. Without --node-name
and access to the API server it checks only this machine. The exit status is 1
if there are problems.`,
		Example: `  pinfold-agent doctor
  pinfold-agent doctor --node-name worker-1 --kubeconfig agent.conf -o json`,
		Args: frame.NoArguments,
	}
	output := frame.OutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		options.Root = node.root
		var err error
		if options.Cluster, err = clusterOf(&node); err != nil {
			return err
		}
		return examine(cmd, options, *output)
	}
	flags := cmd.Flags()
	node.add(flags)
	flags.StringVar(&options.NRISocket, "nri-socket", options.NRISocket, "the container runtime's NRI socket on the host, a `PATH`")
	flags.StringVar(&options.KubeletDir, "kubelet-dir", options.KubeletDir, "the kubelet's --root-dir on the host, a `DIR`")
	flags.StringVar(&options.CgroupRoot, "cgroup-root", "", "the kubelet's --cgroup-root, a `GROUP`")
	return cmd
}

func examine(cmd *cobra.Command, options doctor.Options, output frame.Format) error {
	report := doctor.Examine(cmd.Context(), options)
	print := report.WriteText
	if output == frame.JSON {
		print = func(w io.Writer) error { return frame.PrintJSON(w, report) }
	}
	if err := print(cmd.OutOrStdout()); err != nil {
		return err
	}
	if n := report.Count(doctor.Problem); n > 0 {
		return fmt.Errorf("this node has problems: %d", n)
	}
	return nil
}

// cluster implements [doctor.Cluster].
type cluster struct {
	kubelet    kubelet.Client
	topologies nodetopology.Client
}

// clusterOf returns nil if doctor is to check only this machine.
func clusterOf(node *nodeOptions) (doctor.Cluster, error) {
	if node.kubeconfig == "" {
		if _, err := rest.InClusterConfig(); err != nil || node.nodeName == "" {
			return nil, nil //nolint:nilnil,nilerr // having no cluster is not an error
		}
	}
	config, err := restConfig(node.kubeconfig)
	switch {
	case err != nil:
		return nil, err
	case node.nodeName == "":
		return nil, frame.Usagef("--kubeconfig needs the name of the node: give --node-name")
	}
	client, topologies, err := newClients(config)
	if err != nil {
		return nil, err
	}
	k := kubelet.Client{Client: client, NodeName: node.nodeName, Config: config, CAFile: node.kubeletCA, Root: node.root}
	return cluster{k, topologies}, nil
}

func (c cluster) Kubelet(ctx context.Context) (policy, cgroupRoot string, err error) {
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	k, err := c.kubelet.Configuration(ctx)
	return k.CPUManagerPolicy, k.CgroupRoot, err
}

func (c cluster) Condition(ctx context.Context) (corev1.NodeCondition, error) {
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	node, err := c.kubelet.Client.CoreV1().Nodes().Get(ctx, c.kubelet.NodeName, metav1.GetOptions{})
	if err != nil {
		return corev1.NodeCondition{}, fmt.Errorf("get node %s: %w", c.kubelet.NodeName, err)
	}
	return api.Condition(node, nodetopology.BindingCondition), nil
}

func (c cluster) Findings(ctx context.Context) ([]nodetopology.Finding, error) {
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	object, err := c.topologies.Get(ctx, c.kubelet.NodeName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get topology %s: %w", c.kubelet.NodeName, err)
	}
	return object.Status.Findings, nil
}
