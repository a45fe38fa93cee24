package agent

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/kube/nri"
	"pinfold.dev/pinfold/linux/cgroup"
)

// runtimeHandler answers the container runtime. What cannot be given at creation is no
// reason to fail a container: the next round puts it right.
type runtimeHandler struct{ *engine }

var _ nri.Handler = runtimeHandler{}

// awaitPod is how long a creation waits for the pod to come from the API server. The
// kubelet has it from there, so it is on its way.
const awaitPod = 500 * time.Millisecond

// Synchronize takes in what runs. What differs is written by the next round.
func (h runtimeHandler) Synchronize(_ context.Context, pods []nri.Pod, containers []nri.Container) map[string]nri.Settings {
	uids := map[string]ledger.PodID{}
	for _, p := range pods {
		uids[p.ID] = p.UID
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked++
	for _, p := range pods {
		h.control.Sandbox(p.UID, types.NamespacedName{Namespace: p.Namespace, Name: p.Name})
	}
	for _, c := range containers {
		if c.Running {
			h.control.Created(h.now(), nodeplan.Ref{Pod: uids[c.PodID], Container: c.Name}, c.ID)
		}
	}
	h.log.Info("the container runtime is connected", "containers", len(containers))
	h.poke()
	return nil
}

// Create frees the container's CPUs, then gives it these and its quota.
func (h runtimeHandler) Create(ctx context.Context, pod nri.Pod, c nri.Container) (nri.Settings, error) {
	h.await(ctx, pod)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked++
	ref := nodeplan.Ref{Pod: pod.UID, Container: c.Name}
	h.control.Created(h.now(), ref, c.ID)
	h.learn(pod.CgroupParent)
	h.decide()
	given := h.control.Give(ref)
	h.log.Debug("container is created", "pod", pod.Namespace+"/"+pod.Name, "container", c.Name,
		"cpus", given.CPUs.String(), "quota", given.Quota)
	return given, nil
}

// Start writes what the runtime cannot, before the container's first instruction.
func (h runtimeHandler) Start(_ context.Context, pod nri.Pod, c nri.Container) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked++
	h.learn(pod.CgroupParent)
	h.learn(c.CgroupsPath)
	h.decide()
	h.poke()
	return nil
}

// Update keeps the CPUs, and the quota where it is lifted. Burst that stands in the way of
// a smaller quota is taken back before the runtime writes that.
func (h runtimeHandler) Update(_ context.Context, pod nri.Pod, c nri.Container) nri.Settings {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked++
	h.decide()
	h.poke()
	given := h.control.Give(nodeplan.Ref{Pod: pod.UID, Container: c.Name})
	settings := nri.Settings{CPUs: given.CPUs}
	if given.Quota == bandwidth.Unlimited {
		settings.Quota = given.Quota
	}
	return settings
}

// Stopped frees what the container had.
func (h runtimeHandler) Stopped(_ context.Context, pod nri.Pod, c nri.Container) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked++
	h.control.Stopped(nodeplan.Ref{Pod: pod.UID, Container: c.Name}, c.ID)
	h.poke()
}

// await waits a little for a pod to be known.
func (h runtimeHandler) await(ctx context.Context, pod nri.Pod) {
	h.mu.Lock()
	h.control.Sandbox(pod.UID, types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
	h.mu.Unlock()
	deadline := time.After(awaitPod)
	for !h.knows(pod.UID) {
		select {
		case <-ctx.Done():
			return
		case <-deadline:
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// knows reports whether waiting for a pod would be of no use.
func (h runtimeHandler) knows(id ledger.PodID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	pods := h.pods()
	if pods != nil {
		h.control.SetPods(pods)
	}
	return pods == nil || h.control.HasPod(id)
}

// learn looks at a group that is new. The lock must be held.
func (h runtimeHandler) learn(told string) (learned bool) {
	group, where, ok := h.kernel.place(told)
	if !ok {
		return false
	}
	settings, err := h.kernel.groups.ReadParts(group, cgroup.Parts{CPUs: true, Bandwidth: true, Idle: where.Container == ""})
	if err != nil {
		return false // the next round reads it, or says what is wrong
	}
	h.control.Learn(group, where, settings)
	return true
}

// withoutNRI is what it means that the runtime does not ask.
const withoutNRI = "the container runtime does not ask by NRI, the reconcile loop alone enforces: " +
	"containers get their CPUs a little after they start"

// serveRuntime answers the runtime until the context ends.
func (e *engine) serveRuntime(ctx context.Context, o Options) {
	if o.Socket == "" {
		e.log.Warn(withoutNRI + ", because no socket is named")
		return
	}
	for ctx.Err() == nil {
		err := o.Runtime(ctx, nri.Options{Socket: o.Socket, Logger: o.Log, OnState: e.runtimeIs, OnConflict: e.runtimeConflict}, runtimeHandler{e})
		if err != nil && ctx.Err() == nil {
			e.runtimeIs(nri.State{Err: err})
			sleep.For(ctx, o.RetryAfter)
		}
	}
}

// runtimeIs notes whether the runtime asks.
func (e *engine) runtimeIs(s nri.State) {
	if s.Connected {
		e.dedup.clear("runtime")
	} else if s.Err != nil {
		e.dedup.warn(e.log, "runtime", withoutNRI, s.Err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.figures.runtime = s.Connected
}

// runtimeConflict tells of another plugin. It does not wait for the lock, which the
// runtime's request may hold.
func (e *engine) runtimeConflict(c nri.Conflict) {
	go func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.figures.rivals++
		if n := e.control.About(c.Pod.UID, "NRIConflict", c.String()); e.dedup.fresh("rival "+c.Container.ID, n.Message) {
			e.log.Warn(n.Message, "reason", n.Reason)
			e.events(n)
		}
	}()
}
