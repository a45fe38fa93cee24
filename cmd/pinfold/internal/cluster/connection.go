// Package cluster reaches a cluster as kubectl does ([Connection]), and runs the command pinfold on
// the nodes of pods: [NewSample], [NewTop], [NewWhy]. These are the plugin of kubectl's subcommands
// of those names.
//
// They execute /pinfold in the agent's container on the pod's node (pods/exec), or without one in a
// pod of their own (pods/attach), and stop it by closing its standard input, which also happens when
// the connection breaks. A process of its own removes such a pod (remove-pod). A recording arrives as
// a journal, which is recorded anew here, so that its file appears whole or not at all. Other files
// arrive beside the result (package remote).
package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	_ "k8s.io/client-go/plugin/pkg/client/auth/oidc" // tokens of OpenID Connect, as in kubectl
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"pinfold.dev/pinfold/cmd/frame"
)

// Connection says how the cluster is reached. The rules are kubectl's: --kubeconfig, else the files
// in the variable KUBECONFIG, else ~/.kube/config, else the service account of the pod.
type Connection struct {
	kubeconfig, context string
	timeout             time.Duration
}

// AddFlags adds the flags.
func (c *Connection) AddFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&c.kubeconfig, "kubeconfig", "", "read the connection to the cluster from `FILE`, as kubectl does")
	flags.StringVar(&c.context, "context", "", "use the kubeconfig's context `NAME` (default its current one)")
	flags.DurationVar(&c.timeout, "request-timeout", 30*time.Second, "give up a request after `TIME`; 0 for never")
	frame.CompleteFlag(cmd, "context", func(context.Context) []string {
		config, err := c.rules().Load()
		if err != nil {
			return nil
		}
		return slices.Sorted(maps.Keys(config.Contexts))
	})
}

// arguments returns the flags that reach the same cluster.
func (c *Connection) arguments() []string {
	return []string{"--kubeconfig=" + c.kubeconfig, "--context=" + c.context, "--request-timeout=" + c.timeout.String()}
}

func (c *Connection) rules() *clientcmd.ClientConfigLoadingRules {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.kubeconfig
	return rules
}

// Config returns the configuration of a client, and the namespace of the context.
func (c *Connection) Config() (config *rest.Config, namespace string, err error) {
	if c.timeout < 0 {
		return nil, "", frame.Usagef("--request-timeout is %v: it must be 0 or more", c.timeout)
	}
	overrides := &clientcmd.ConfigOverrides{CurrentContext: c.context, Timeout: c.timeout.String()}
	client := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(c.rules(), overrides)
	if config, err = client.ClientConfig(); err == nil {
		namespace, _, err = client.Namespace()
	}
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, "", errors.New("no cluster is configured: give --kubeconfig, or set KUBECONFIG, or create ~/.kube/config")
	case err != nil && c.context != "" && strings.Contains(err.Error(), "context"):
		return nil, "", fmt.Errorf("%w: 'kubectl config get-contexts' lists the contexts", err)
	case err != nil:
		return nil, "", frame.KubeconfigError(err)
	}
	config.UserAgent = rest.DefaultKubernetesUserAgent()
	config.WarningHandler = rest.NoWarnings{}
	return config, namespace, nil
}

// Server returns the configuration of a client of servers in the cluster, behind the API server's proxy.
func (c *Connection) Server() (*rest.Config, error) {
	config, _, err := c.Config()
	return config, err
}

// Explain adds to an error of the API server at an address what to do.
func Explain(ctx context.Context, server string, err error) error {
	var network *url.Error
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted")
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the API server %s rejects the credentials (%w): log in again, or name another --context", server, err)
	case errors.As(err, &network):
		return fmt.Errorf("cannot reach the API server %s (%w): check that it runs, and that --kubeconfig and --context are right", server, network.Err)
	}
	return err
}
