package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	topologyclient "github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/generated/clientset/versioned"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"pinfold.dev/pinfold/agent"
	"pinfold.dev/pinfold/agent/doctor"
	"pinfold.dev/pinfold/cmd/internal/usage"
	"pinfold.dev/pinfold/kube/nodetopology"
)

// patience bounds every question of doctor to the cluster.
const patience = 10 * time.Second

func newDoctor() *cobra.Command {
	var node nodeFlags
	look := doctor.Defaults()
	var output string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check everything that the agent needs of this node, and say what to do",
		Long: `doctor looks at the kernel, the control groups, the machine, the kubelet, the container
runtime and at who else manages CPUs here, and says of each thing what it found and
what to do about it. It changes nothing. Without --node-name and a way to the API
server it looks at this machine only. The exit status is 1 when there are problems.`,
		Args: usage.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "text" && output != "json" {
				return usage.Errorf("-o %s: it must be text or json", output)
			}
			look.Root = node.root
			var err error
			if look.Cluster, err = clusterOf(&node); err != nil {
				return err
			}
			return examine(cmd, look, output)
		},
	}
	flags := cmd.Flags()
	node.add(flags)
	flags.StringVar(&look.NRISocket, "nri-socket", look.NRISocket, "the container runtime's NRI socket on the host")
	flags.StringVar(&look.KubeletDir, "kubelet-dir", look.KubeletDir, "the kubelet's --root-dir on the host")
	flags.StringVar(&look.CgroupRoot, "cgroup-root", "", "the kubelet's --cgroup-root")
	flags.StringVarP(&output, "output", "o", "text", "text or json")
	return cmd
}

func examine(cmd *cobra.Command, look doctor.Options, output string) error {
	report := doctor.Examine(cmd.Context(), look)
	if output == "json" {
		encoder := json.NewEncoder(cmd.OutOrStdout())
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(report); err != nil {
			return err
		}
	} else if err := report.WriteText(cmd.OutOrStdout()); err != nil {
		return err
	}
	if n := report.Count(doctor.Problem); n > 0 {
		return fmt.Errorf("this node has problems: %d", n)
	}
	return nil
}

// cluster asks the API server and the kubelet about one node.
type cluster struct {
	node       string
	kubelet    agent.KubeletClient
	client     kubernetes.Interface
	topologies topologyclient.Interface
}

// clusterOf returns nil when there is no way to the API server, or no node to ask about.
func clusterOf(node *nodeFlags) (doctor.Cluster, error) {
	if node.kubeconfig == "" {
		if _, err := rest.InClusterConfig(); err != nil || node.nodeName == "" {
			return nil, nil //nolint:nilnil,nilerr // nobody to ask is no mistake
		}
	}
	config, err := restConfig(node.kubeconfig)
	switch {
	case err != nil:
		return nil, err
	case node.nodeName == "":
		return nil, usage.Errorf("--kubeconfig is given, but no node is named: give --node-name")
	}
	c := cluster{node: node.nodeName, kubelet: agent.KubeletClient{Config: config, CAFile: node.kubeletCA}}
	if c.client, err = kubernetes.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	if c.topologies, err = topologyclient.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	return c, nil
}

// CPUManagerPolicy implements doctor.Cluster.
func (c cluster) CPUManagerPolicy(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	host, port, err := agent.KubeletAddress(ctx, c.client, c.node)
	if err != nil {
		return "", err
	}
	k, err := c.kubelet.Get(ctx, host, port)
	return k.CPUManagerPolicy, err
}

// TopologyWriter implements doctor.Cluster.
func (c cluster) TopologyWriter(ctx context.Context) (writer string, ours bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	obj, err := c.topologies.TopologyV1alpha2().NodeResourceTopologies().Get(ctx, c.node, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("get the NodeResourceTopology of %s: %w", c.node, err)
	}
	writer, ours = nodetopology.Owner(obj)
	return writer, ours, nil
}
