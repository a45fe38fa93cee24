package localcluster

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"pinfold.dev/pinfold/local/supervisor"
)

// StopComponent stops a component until StartComponent.
func (c *Cluster) StopComponent(name string) error {
	child, err := c.child(name)
	if err != nil {
		return fmt.Errorf("stop %s: %w", name, err)
	}
	child.Stop()
	return nil
}

// StartComponent starts a component again with the same flags, and waits until it is ready.
func (c *Cluster) StartComponent(ctx context.Context, name string) error {
	child, err := c.child(name)
	if err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	child.Stop() // if it is running
	return c.startChild(child.Spec()).WaitReady(ctx)
}

// PID returns the process id of a component, 0 if it is not running.
func (c *Cluster) PID(name string) int {
	child, err := c.child(name)
	if err != nil {
		return 0
	}
	return child.Status().PID
}

// ConfigureScheduler replaces the scheduler's configuration (see Config.SchedulerConfig) from its
// next start on.
func (c *Cluster) ConfigureScheduler(config []byte) error {
	complete, err := schedulerConfig(config, c.layout.kubeconfig(Scheduler))
	if err != nil {
		return err
	}
	return writeFile(c.layout.path("config", schedulerConfigName), complete)
}

func (c *Cluster) child(name string) (*supervisor.Child, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	child, ok := c.running[name]
	if !ok {
		return nil, fmt.Errorf("the cluster has started no component of that name, only %q", slices.Sorted(maps.Keys(c.running)))
	}
	return child, nil
}
