package localcluster

import (
	"context"
	"fmt"

	"pinfold.dev/pinfold/lab/supervisor"
)

// StopComponent ends one component, which stays down until StartComponent.
func (c *Cluster) StopComponent(name string) error {
	child, err := c.child(name)
	if err != nil {
		return fmt.Errorf("stop %s: %w", name, err)
	}
	child.Stop()
	return nil
}

// StartComponent starts a component that StopComponent has ended, with the flags
// that it had, and returns when it is ready.
func (c *Cluster) StartComponent(ctx context.Context, name string) error {
	child, err := c.child(name)
	if err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	child.Stop() // of one that runs there would be two
	return c.startChild(child.Spec()).WaitReady(ctx)
}

// PID returns the process id of a component, 0 when it does not run.
func (c *Cluster) PID(name string) int {
	child, err := c.child(name)
	if err != nil {
		return 0
	}
	return child.Status().PID
}

// ConfigureScheduler replaces the scheduler's configuration, as in
// Config.SchedulerConfig, from its next start on.
func (c *Cluster) ConfigureScheduler(config []byte) error {
	signingKey, _ := c.layout.allocationKey()
	complete, err := schedulerConfig(config, c.layout.kubeconfig(Scheduler), signingKey)
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
		return nil, fmt.Errorf("the cluster has started no component of that name, only %q", c.names())
	}
	return child, nil
}

// names returns the components that have been started; c.mu is held.
func (c *Cluster) names() []string {
	var names []string
	for _, name := range allNames() {
		if _, ok := c.running[name]; ok {
			names = append(names, name)
		}
	}
	return names
}
