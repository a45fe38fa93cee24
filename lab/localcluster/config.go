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
)

// startTimeout bounds Start. A start takes about five seconds on two idle
// CPUs; a machine that builds something else at the same time is much slower.
const startTimeout = 3 * time.Minute

// Config says what to run and where.
type Config struct {
	// Executable is the multi-call program that contains the components.
	Executable string
	// Dir is the data directory: absent, empty, or left by an earlier cluster.
	Dir string
	// ExportKubeconfig is a further place for the administrator's kubeconfig,
	// which is always at Dir/kubeconfig. Empty: none.
	ExportKubeconfig string
	// SchedulerConfig is a KubeSchedulerConfiguration in YAML without
	// clientConnection.kubeconfig. Empty: the scheduler's defaults.
	SchedulerConfig []byte
	// KeepData leaves the data directory behind for inspection. The next
	// cluster there starts empty all the same.
	KeepData bool
	// Install runs when the API is ready and before the scheduler starts. It is
	// the place for the definitions of resources that the scheduler watches.
	Install func(ctx context.Context, admin *rest.Config) error
	// Populate runs when pods can be scheduled. It is the place for nodes; the
	// cluster counts as ready when it returns.
	Populate func(ctx context.Context, admin *rest.Config) error
	// RealNode adds this machine as a node, before Populate. nil: it is none. Needs
	// root.
	RealNode *RealNode
	// Progress takes a few words about each step of Start. nil: none.
	Progress func(step string)
	// Logger takes unexpected ends of components. nil: none.
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
