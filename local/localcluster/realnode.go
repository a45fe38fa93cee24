package localcluster

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/client-go/kubernetes"

	"pinfold.dev/pinfold/local/localnode"
)

// nodeDirName is the directory of a real node.
const nodeDirName = "node"

// planNode sets c.node. It returns an error if this machine cannot be a node.
func (c *Cluster) planNode() error {
	options := *c.config.RealNode
	options.FeatureGates = c.config.FeatureGates
	options.Dir, options.Executable = c.layout.path(nodeDirName), c.config.Executable
	options.Registry = fmt.Sprintf("127.0.0.1:%d", c.ports[localnode.Registry].Number)
	node, err := localnode.New(options)
	if err != nil {
		return err
	}
	c.node = node
	return nil
}

func (l layout) nodeCredentials() localnode.Credentials {
	certificate, key := l.certificate(localnode.Kubelet)
	return localnode.Credentials{
		Kubeconfig:  l.kubeconfig(localnode.Kubelet),
		ClientCA:    l.path("pki", "ca.crt"),
		Certificate: certificate,
		Key:         key,

		AgentKubeconfig: l.kubeconfig(localnode.Agent),
	}
}

// kubeletClientName is the name of the API server's credentials as the kubelet's client.
const kubeletClientName = "kube-apiserver-kubelet-client"

// nodeFlags returns the API server's flags for a real node. With them it can read logs and run
// commands on the node, and prevents the node from changing other nodes.
func nodeFlags(l layout) []string {
	certificate, key := l.certificate(kubeletClientName)
	return []string{
		"--kubelet-preferred-address-types=InternalIP", // its name cannot be resolved
		"--kubelet-certificate-authority=" + l.path("pki", "ca.crt"),
		"--kubelet-client-certificate=" + certificate,
		"--kubelet-client-key=" + key,
		"--enable-admission-plugins=NodeRestriction",
	}
}

// AgentMetrics returns host:port of the metrics of the real node's agent.
func (c *Cluster) AgentMetrics() string { return c.node.AgentMetrics() }

// startNode adds this machine as a node and waits until pods run on it.
func (c *Cluster) startNode(ctx context.Context, client kubernetes.Interface) error {
	c.step("adding this machine as a node")
	credentials := c.layout.nodeCredentials()
	if err := c.node.Prepare(credentials); err != nil {
		return err
	}
	for _, spec := range c.node.Components(credentials) {
		spec.Dir, spec.Log = c.layout.dir, c.layout.log(spec.Name)
		spec.Env = slices.Concat(c.environment(), spec.Env)
		if err := c.startChild(spec).WaitReady(ctx); err != nil {
			return err
		}
	}
	return localnode.WaitReady(ctx, client)
}
