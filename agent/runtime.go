package agent

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/kube/nri"
)

// runtimeHandler answers the container runtime's NRI requests. Settings that cannot be applied at
// creation are applied by the next round. It rejects a container only with
// [control.Config].Refuses.
type runtimeHandler struct{ *engine }

// maxPodDelay is how long the creation of a container waits for its pod to arrive from the API
// server. The kubelet has it from there, so it is on its way.
const maxPodDelay = 500 * time.Millisecond

// Synchronize records the running containers. The next round corrects their settings.
func (h runtimeHandler) Synchronize(_ context.Context, pods []nri.Pod, containers []nri.Container) map[string]nri.Settings {
	h.update(func() {
		uids := map[string]ledger.PodID{}
		event := control.Event{Sandboxes: map[ledger.PodID]types.NamespacedName{}, Created: map[nodeplan.Ref]string{}, At: h.Now()}
		for _, p := range pods {
			uids[p.ID], event.Sandboxes[p.UID] = p.UID, types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
		}
		for _, c := range containers {
			if c.Running {
				event.Created[nodeplan.Ref{Pod: uids[c.PodID], Container: c.Name}] = c.ID
			}
		}
		h.control.Step(event)
		h.Log.Info("the container runtime is connected", "containers", len(containers))
		h.requestRound()
	})
	return nil
}

// Create moves other containers off the new container's CPUs, and returns these and its quota.
func (h runtimeHandler) Create(ctx context.Context, pod nri.Pod, c nri.Container) (settings nri.Settings, err error) {
	if !h.Observe { // else no answer depends on the pod
		h.awaitPod(ctx, pod)
	}
	h.update(func() {
		ref := nodeplan.Ref{Pod: pod.UID, Container: c.Name}
		h.control.Step(control.Event{Created: map[nodeplan.Ref]string{ref: c.ID}, At: h.Now()})
		h.addGroup(pod.CgroupParent)
		h.decide(ref)
		settings, err = h.status.Created, h.status.Refused
		h.Log.Debug("container is created", "pod", pod.Namespace+"/"+pod.Name, "container", c.Name,
			"cpus", settings.CPUs.String(), "quota", settings.Quota)
	})
	return settings, err
}

// Start writes the settings that the runtime cannot write, before the container's first
// instruction.
func (h runtimeHandler) Start(_ context.Context, pod nri.Pod, c nri.Container) error {
	h.update(func() {
		h.addGroup(pod.CgroupParent)
		h.addGroup(c.CgroupsPath)
		h.decide()
		h.separate() // what the container starts inherits the cookie
		if h.status.Hold == "" {
			h.scheduler.TurnOverStarting(h.status.Batch.Pods)
		}
		h.requestRound()
	})
	return nil
}

// Update keeps the container's CPUs, and its quota if that is lifted. It removes burst that would
// make the kernel reject a smaller quota, before the runtime writes that quota. Where no pod asks
// any more, the runtime may write CPUs that an agent has told it earlier; the next rounds give
// these back.
func (h runtimeHandler) Update(_ context.Context, pod nri.Pod, c nri.Container) (settings nri.Settings) {
	h.update(func() {
		if h.force.ever {
			h.control.Step(control.Event{RuntimeWrites: true})
		}
		h.decide(nodeplan.Ref{Pod: pod.UID, Container: c.Name})
		h.requestRound()
		settings = h.status.Created
	})
	if settings.Quota != bandwidth.Unlimited {
		settings = nri.Settings{CPUs: settings.CPUs}
	}
	return settings
}

// Stopped releases the container's CPUs.
func (h runtimeHandler) Stopped(_ context.Context, pod nri.Pod, c nri.Container) {
	h.update(func() {
		h.control.Step(control.Event{Stopped: map[nodeplan.Ref]string{{Pod: pod.UID, Container: c.Name}: c.ID}})
		h.requestRound()
	})
}

// awaitPod waits for a short time until the pod is known.
func (h runtimeHandler) awaitPod(ctx context.Context, pod nri.Pod) {
	h.step(control.Event{Sandboxes: map[ledger.PodID]types.NamespacedName{pod.UID: {Namespace: pod.Namespace, Name: pod.Name}}})
	// A pod that is still unknown then is treated as unknown.
	_ = wait.PollUntilContextTimeout(ctx, 5*time.Millisecond, maxPodDelay, true, func(context.Context) (bool, error) {
		return h.knows(pod.UID), nil
	})
}

// knows reports whether a pod is known, or waiting for it is useless because no pods are.
func (h runtimeHandler) knows(id ledger.PodID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	pods := h.pods.list()
	h.control.Step(control.Event{Pods: pods})
	return pods == nil || h.control.Pods.Get(id) != nil
}

// withoutNRI is the warning while the container runtime is not connected.
const withoutNRI = "the container runtime is not connected by NRI, the reconcile loop alone enforces: " +
	"containers get their CPUs a little after they start"

// serve answers the container runtime until the context ends.
func (h runtimeHandler) serve(ctx context.Context) {
	if h.Socket == "" {
		h.reports.dedup.WarnOrClear("runtime", withoutNRI, errors.New("no socket is named"))
		return
	}
	h.Runtime(ctx, nri.Options{Socket: h.Socket, Logger: h.Log, OnState: h.setState, OnConflict: h.reportConflict}, h)
}

// setState records whether the runtime is connected.
func (h runtimeHandler) setState(state nri.State) {
	if state.Connected {
		h.reports.dedup.Clear("runtime")
	} else if state.Err != nil {
		h.reports.dedup.WarnOrClear("runtime", withoutNRI, state.Err)
	}
	h.reports.update(func(s *stats) { s.connected = state.Connected })
}

// reportConflict reports that another NRI plugin sets a container too. It does not wait for the
// lock, which the handler of the same request may hold.
func (h runtimeHandler) reportConflict(conflict nri.Conflict) {
	h.reports.update(func(s *stats) { s.nriConflicts++ })
	go h.with(func(c *control.Control) {
		n := control.Notice{Reason: "NRIConflict", Message: conflict.String()}
		if pod := c.Pods.Get(conflict.Pod.UID); pod != nil {
			n.Pod = pod.Object
			h.reports.keep(conflict.Container.ID, n, func(uid types.UID) bool { return c.Pods.Get(ledger.PodID(uid)) != nil })
		}
		if h.reports.dedup.Fresh("conflict "+conflict.Container.ID, n.Message) {
			h.reports.warn(n)
		}
	})
}
