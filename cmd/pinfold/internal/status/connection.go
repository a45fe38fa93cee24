package status

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	_ "k8s.io/client-go/plugin/pkg/client/auth/oidc" // tokens of OpenID Connect, as in kubectl
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"pinfold.dev/pinfold/cmd/internal/frame"
	"pinfold.dev/pinfold/kube/survey"
)

// connectionOptions say how the cluster is reached. The rules are kubectl's: --kubeconfig, else the
// files in the variable KUBECONFIG, else ~/.kube/config, else the service account of the pod.
type connectionOptions struct {
	kubeconfig, context, leaseNamespace string
	timeout                             time.Duration
}

func (c *connectionOptions) add(cmd *cobra.Command) {
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

func (c *connectionOptions) rules() *clientcmd.ClientConfigLoadingRules {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.kubeconfig
	return rules
}

// connect returns a client, and the address of the API server.
func (c *connectionOptions) connect() (*survey.Client, string, error) {
	if c.timeout < 0 {
		return nil, "", frame.Usagef("--request-timeout is %v: it must be 0 or more", c.timeout)
	}
	overrides := &clientcmd.ConfigOverrides{CurrentContext: c.context, Timeout: c.timeout.String()}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(c.rules(), overrides).ClientConfig()
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
	client, err := survey.NewClient(config, c.leaseNamespace)
	if err != nil {
		return nil, "", fmt.Errorf("make a client for %s: %w", config.Host, err)
	}
	return client, config.Host, nil
}
