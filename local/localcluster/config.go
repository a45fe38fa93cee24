package localcluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"

	"pinfold.dev/pinfold/kube/versions"
	"pinfold.dev/pinfold/local/localnode"
)

// startTimeout limits Start, which takes about five seconds on two idle CPUs and much longer on a
// busy machine.
const startTimeout = 5 * time.Minute

// Config configures a cluster.
type Config struct {
	// Executable is the multi-call program that contains the components.
	Executable string
	// Dir is the data directory: it does not exist, is empty, or was left by an earlier cluster.
	Dir string
	// SchedulerConfig is a KubeSchedulerConfiguration in YAML without clientConnection.kubeconfig.
	// Empty: the scheduler's defaults.
	SchedulerConfig []byte
	// Kubernetes is the minor version that the control plane emulates, one of [versions.Supported].
	// Empty: the newest.
	Kubernetes string
	// FeatureGates are those of all components of Kubernetes.
	FeatureGates map[string]bool
	// Stock leaves out the rights of Pinfold's components, for a cluster without them.
	Stock bool
	// KeepData keeps the data directory for inspection. The next cluster there starts empty
	// nevertheless.
	KeepData bool
	// Install is called when the API is ready, before the scheduler starts. It installs the
	// definitions of resources that the scheduler watches.
	Install func(ctx context.Context, admin *rest.Config) error
	// Populate is called when pods can be scheduled. It creates the nodes. The cluster counts as ready
	// when it returns.
	Populate func(ctx context.Context, admin *rest.Config) error
	// RealNode adds this machine as a node, before Populate. nil: no real node. Needs root. Start sets
	// its Dir, Executable and Registry.
	RealNode *localnode.Options
	// Progress is called with a short description of each step of Start. nil: not reported.
	Progress func(step string)
	// Logger logs unexpected exits of components, and what cannot be removed. nil: no logging.
	Logger *slog.Logger
}

func (c Config) withDefaults() (Config, error) {
	if c.Executable == "" || c.Dir == "" {
		return c, errors.New("a local cluster needs an executable and a data directory")
	}
	var err error
	if c.Executable, err = filepath.Abs(c.Executable); err != nil {
		return c, fmt.Errorf("find the components: %w", err)
	}
	if _, err := os.Stat(c.Executable); err != nil {
		return c, fmt.Errorf("find the components: %w", err)
	}
	if c.Dir, err = filepath.Abs(c.Dir); err != nil {
		return c, fmt.Errorf("find the data directory: %w", err)
	}
	if c.Kubernetes == "" {
		c.Kubernetes = versions.Newest().String()
	}
	version, err := versions.Parse(c.Kubernetes)
	if err != nil {
		return c, err
	}
	c.Kubernetes = version.String()
	nothing := func(context.Context, *rest.Config) error { return nil }
	if c.Install == nil {
		c.Install = nothing
	}
	if c.Populate == nil {
		c.Populate = nothing
	}
	if c.Progress == nil {
		c.Progress = func(string) {}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}
