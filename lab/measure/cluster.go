package measure

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"time"

	"k8s.io/client-go/kubernetes"

	"pinfold.dev/pinfold/core/experiment"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/lab/pods"
	"pinfold.dev/pinfold/lab/programs"
	"pinfold.dev/pinfold/linux/cgroup"
)

// cluster runs programs as pods.
type cluster struct{ node *pods.Node }

// openCluster finds this machine in a cluster, and removes what an earlier run has left.
func openCluster(ctx context.Context, client kubernetes.Interface, groups *cgroup.FS) (*cluster, error) {
	node, err := pods.Open(ctx, client, groups)
	if err != nil {
		return nil, err
	}
	return &cluster{node}, node.Clean(ctx)
}

func (c *cluster) start(ctx context.Context, s program) (*process, error) {
	pod, err := c.node.Start(ctx, s.Spec)
	if err != nil {
		return nil, fmt.Errorf("%s did not start: %w", s.title, err)
	}
	p := &process{group: pod.Group}
	run := func(ctx context.Context) error {
		err := pod.Wait(ctx)
		if err != nil {
			err = fmt.Errorf("%s: %w", s.title, err)
		}
		return errors.Join(err, pod.Stop())
	}
	return p, p.start(ctx, s, pod.Output, run, func(context.Context) error { return nil })
}

// backgroundFor is how long the usage of the cluster's components is measured, and mostBackground
// the largest usage that can be theirs.
const (
	backgroundFor  = 5 * time.Second
	mostBackground = 0.25
)

// background returns the share of the CPUs that everything uses while no service runs.
func (l *lab) background(ctx context.Context) (float64, error) {
	before, err := l.machine.usage(nil)
	if err != nil {
		return 0, err
	}
	if !sleep.For(ctx, backgroundFor) {
		return 0, context.Cause(ctx)
	}
	after, err := l.machine.usage(nil)
	if err != nil {
		return 0, err
	}
	used := after.all - before.all - (after.generator - before.generator)
	share := float64(used) / float64(after.at.Sub(before.at)) / float64(l.cpus.Len())
	if share > max(mostBackground, float64(l.config.Foreign)) {
		return 0, fmt.Errorf("%s of the CPUs are used although no service runs, too much for the components of a cluster: end other programs", experiment.Foreign.Format(share))
	}
	return share, nil
}

// findShared sets the CPUs that belong to no pod alone.
func (l *lab) findShared(running *services) error {
	running.shared = l.cpus
	for _, s := range running.all {
		for _, group := range s.groups() {
			if s.Policy == placement.Static {
				own, err := l.machine.groups.Effective(group)
				if err != nil {
					return fmt.Errorf("read the CPUs of %s: %w", s.Name, err)
				}
				running.shared = running.shared.Difference(own)
			}
		}
	}
	return nil
}

// WriteImages writes the images of all programs to an OCI image layout, and returns their names.
// Programs that are not installed are left out, because built-in ones replace them, and with
// builtIn all programs that are not built in.
func WriteImages(dir string, builtIn bool, progress func(string)) ([]string, error) {
	var found []programs.Program
	for _, name := range slices.Sorted(maps.Values(realPrograms())) {
		if builtIn || name == realPrograms()[wrk] { // wrk runs outside of pods
			continue
		}
		p, err := programs.Find(name)
		switch {
		case errors.Is(err, exec.ErrNotFound):
			progress(fmt.Sprintf("no image of %s: %v", name, err))
		case err != nil:
			return nil, err
		default:
			found = append(found, p)
		}
	}
	return pods.WriteImages(dir, found)
}
