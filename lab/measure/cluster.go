package measure

import (
	"bufio"
	"cmp"
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
)

// place is where the programs of services run.
type place interface {
	// start starts a program, and waits until it is ready. It ends with ctx.
	start(ctx context.Context, s program, notify func(string)) (*process, error)
}

// cluster runs programs as pods.
type cluster struct {
	node  *pods.Node
	scale experiment.Scale
}

// openCluster makes the services of a run pods.
func (r *run) openCluster(ctx context.Context, client kubernetes.Interface) error {
	node, err := pods.Open(ctx, client, r.machine.groups)
	if err != nil {
		return err
	}
	if r.builtInImage, err = pods.BuiltIn(); err != nil {
		return err
	}
	r.place, r.inPods = cluster{node, r.scale}, true
	return node.Clean(ctx)
}

func (c cluster) start(ctx context.Context, s program, _ func(string)) (*process, error) {
	pod, err := c.node.Start(ctx, pods.Spec{Name: s.group, Image: s.image, Args: s.args, Dir: s.dir, Service: s.service, Scale: c.scale})
	if err != nil {
		return nil, fmt.Errorf("%s did not start: %w", s.name, err)
	}
	p := newProcess(s)
	p.group = pod.Group
	ctx, cancel := context.WithCancelCause(ctx)
	defer time.AfterFunc(startTimeout, func() { cancel(errLate) }).Stop()
	go func() {
		defer cancel(nil)
		defer close(p.done)
		err := pod.Wait(ctx)
		if err != nil {
			err = fmt.Errorf("%s: %w", s.name, err)
		}
		p.err = errors.Join(err, pod.Stop())
	}()
	lines := bufio.NewReader(pod.Output)
	err = p.ready(ctx, s, lines)
	go p.read(lines, pod.Output)
	if err != nil {
		cancel(err)
		<-p.done
		return nil, fmt.Errorf("%s did not start: %w", s.name, cmp.Or(p.err, context.Cause(ctx)))
	}
	return p, nil
}

// backgroundFor is how long the usage of the cluster's components is measured, and mostBackground
// the largest usage that can be theirs.
const (
	backgroundFor  = 5 * time.Second
	mostBackground = 0.25
)

// background returns the share of the CPUs that everything uses while no service runs.
func (r *run) background(ctx context.Context) (float64, error) {
	before, err := r.machine.usage(nil)
	if err != nil {
		return 0, err
	}
	if !sleep.For(ctx, backgroundFor) {
		return 0, context.Cause(ctx)
	}
	after, err := r.machine.usage(nil)
	if err != nil {
		return 0, err
	}
	used := after.all - before.all - (after.generator - before.generator)
	share := float64(used) / float64(after.at.Sub(before.at)) / float64(r.cpus.Len())
	if share > max(mostBackground, float64(r.config.Foreign)) {
		return 0, fmt.Errorf("%s of the CPUs are used although no service runs, too much for the components of a cluster: end other programs", experiment.Foreign.Format(share))
	}
	return share, nil
}

// findShared sets the CPUs that belong to no pod alone.
func (r *run) findShared(running *services) error {
	running.shared = r.cpus
	for _, s := range running.all {
		for _, group := range s.groups() {
			if s.Policy == placement.Static {
				own, err := r.machine.groups.Effective(group)
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
