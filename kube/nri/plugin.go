package nri

import (
	"context"
	"errors"
	"fmt"

	"github.com/containerd/nri/pkg/api"
)

// plugin answers the runtime's requests with the help of the handler. It implements the interfaces
// of NRI's stub.
type plugin struct {
	options    Options
	handler    Handler
	guard      *guard
	containers *tracker
}

// silent logs an error of the handler. It returns nil if the handler gave no answer: the runtime
// then continues without one.
func (p *plugin) silent(err error, request string, pod Pod, c Container) error {
	if err == nil {
		return nil
	}
	log := p.options.Logger.With("request", request, "namespace", pod.Namespace, "pod", pod.Name, "container", c.Name)
	if errors.Is(err, errNoAnswer) {
		log.Error("the runtime continues without the settings; the next reconciliation applies them", "err", err)
		return nil
	}
	log.Error("a container was refused", "err", err)
	return fmt.Errorf("pinfold: %w", err)
}

// Synchronize receives all pods and containers after the connection was made.
func (p *plugin) Synchronize(ctx context.Context, pods []*api.PodSandbox, containers []*api.Container) ([]*api.ContainerUpdate, error) {
	p.containers.synchronize(pods, containers)
	ourPods, ourContainers := make([]Pod, len(pods)), make([]Container, len(containers))
	for i, pod := range pods {
		ourPods[i] = podOf(pod)
	}
	for i, c := range containers {
		ourContainers[i] = containerOf(c)
	}
	wanted, err := ask(ctx, p.guard, func(ctx context.Context) (map[string]Settings, error) {
		return p.handler.Synchronize(ctx, ourPods, ourContainers), nil
	})
	if err := p.silent(err, "Synchronize", Pod{}, Container{}); err != nil {
		return nil, err
	}
	var updates []*api.ContainerUpdate
	for _, c := range ourContainers { // in the runtime's order
		if cpu := wanted[c.ID].cpu(); cpu != nil {
			updates = append(updates, update(c.ID, cpu))
		}
	}
	return updates, nil
}

// CreateContainer sets cpuset, quota and period of a new container.
func (p *plugin) CreateContainer(ctx context.Context, nriPod *api.PodSandbox, nriContainer *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	pod, c := podOf(nriPod), containerOf(nriContainer)
	settings, err := ask(ctx, p.guard, func(ctx context.Context) (Settings, error) {
		return p.handler.Create(ctx, pod, c)
	})
	if err := p.silent(err, "CreateContainer", pod, c); err != nil {
		return nil, nil, err
	}
	cpu, r := p.containers.create(nriPod, nriContainer, settings.cpu())
	if r.yielded == hasCPUs {
		p.conflict(Conflict{Pod: pod, Container: c, Reason: fmt.Sprintf("comes with CPUs %s, from an NRI plugin called before us or"+
			" the kubelet's static CPU manager: its CPUs are set at its start only; remove that plugin, or set cpuManagerPolicy: none", r.brought)})
	}
	return adjustment(cpu), nil, nil
}

// StartContainer lets the handler write the settings for which NRI has no field.
func (p *plugin) StartContainer(ctx context.Context, nriPod *api.PodSandbox, nriContainer *api.Container) error {
	pod, c := podOf(nriPod), containerOf(nriContainer)
	if r, ok := p.containers.start(nriContainer); ok {
		p.reportYield(pod, c, r, cpuOf(nriContainer))
	}
	_, err := ask(ctx, p.guard, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, p.handler.Start(ctx, pod, c)
	})
	return p.silent(err, "StartContainer", pod, c)
}

func (p *plugin) reportYield(pod Pod, c Container, r record, now *api.LinuxCPU) {
	switch {
	case r.yielded == never:
	case r.changed(now):
		p.conflict(Conflict{Pod: pod, Container: c, Proven: true, Reason: fmt.Sprintf("another NRI plugin sets its CPU settings"+
			" (CPUs %q, quota %d us): until the next connection our settings are written at the start of containers only;"+
			" remove that plugin, or let it leave the CPUs alone", now.GetCpus(), now.GetQuota().GetValue())})
	case r.yielded == hasFailed:
		p.conflict(Conflict{Pod: pod, Container: c, Reason: "could not be created with our settings and could without," +
			" so they are set at its start only: another NRI plugin may set them as well; see the runtime's log"})
	}
}

func (p *plugin) conflict(c Conflict) {
	p.options.Logger.Warn("another plugin or the kubelet sets the same CPU settings", "conflict", c.String(), "proven", c.Proven)
	p.options.OnConflict(c)
}

// UpdateContainer replaces the settings of the update by those of the handler. containerd passes
// its whole record of the container to runc, including the cpuset, and so would revert direct
// writes to the cgroup. Other resources in the update, such as memory, are not changed. If another
// plugin called earlier has set them, its settings stay and the update succeeds.
func (p *plugin) UpdateContainer(ctx context.Context, nriPod *api.PodSandbox, nriContainer *api.Container, _ *api.LinuxResources) ([]*api.ContainerUpdate, error) {
	pod, c := podOf(nriPod), containerOf(nriContainer)
	settings, err := ask(ctx, p.guard, func(ctx context.Context) (Settings, error) {
		return p.handler.Update(ctx, pod, c), nil
	})
	if err := p.silent(err, "UpdateContainer", pod, c); err != nil {
		return nil, err
	}
	cpu := settings.cpu()
	if cpu == nil || p.containers.yields(c.ID) {
		return nil, nil
	}
	u := update(c.ID, cpu)
	u.IgnoreFailure = true
	return []*api.ContainerUpdate{u}, nil
}

// StopContainer notifies the handler of a container that has ended or was never started.
func (p *plugin) StopContainer(ctx context.Context, pod *api.PodSandbox, c *api.Container) ([]*api.ContainerUpdate, error) {
	p.containers.stop(c.GetId())
	return nil, p.stopped(ctx, "StopContainer", podOf(pod), containerOf(c))
}

// RemoveContainer notifies the handler if there was no StopContainer.
func (p *plugin) RemoveContainer(ctx context.Context, pod *api.PodSandbox, c *api.Container) error {
	if !p.containers.stop(c.GetId()) {
		return nil
	}
	return p.stopped(ctx, "RemoveContainer", podOf(pod), containerOf(c))
}

func (p *plugin) stopped(ctx context.Context, request string, pod Pod, c Container) error {
	c.Running = false
	_, err := ask(ctx, p.guard, func(ctx context.Context) (struct{}, error) {
		p.handler.Stopped(ctx, pod, c)
		return struct{}{}, nil
	})
	return p.silent(err, request, pod, c)
}

// events returns the events that the plugin subscribes to.
func events() api.EventMask {
	var mask api.EventMask
	mask.Set(api.Event_CREATE_CONTAINER, api.Event_START_CONTAINER, api.Event_UPDATE_CONTAINER,
		api.Event_STOP_CONTAINER, api.Event_REMOVE_CONTAINER)
	return mask
}
