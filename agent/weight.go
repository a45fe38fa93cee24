package agent

import (
	"context"
	"fmt"
	"path"

	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptree"
	"pinfold.dev/pinfold/linux/kubepods"
)

// ownShares is the weight that the agent gives its own pod, which has no other container: that of a
// request of a quarter of a CPU. With the weight of a small request, 5 ms of work take seconds
// beside busy neighbours, and the container runtime does not wait that long for an answer. More
// weight would cost more: since Kubernetes 1.36 kubelets report it as the pod's request
// (status.resources), and schedulers count that.
const ownShares = 256

// minTierShares is the weight below which the QoS tier of the agent's pod is too weak: that of the
// request in deploy/manifests. Only the kubelet may set it, which it does each minute and whenever
// a pod is added.
const minTierShares = 100

// keepWeight keeps the agent's own weight until the context ends. Other programs overwrite it, such
// as the kubelet at a resize.
func (e *engine) keepWeight(ctx context.Context) {
	own, err := cgrouptree.Own(e.kernel.groups, cgroup.CPU)
	if err != nil {
		e.Log.Warn("the agent keeps the CPU weight of its request", "error", err)
		return
	}
	for ctx.Err() == nil {
		known := false
		var err error
		e.with(func(*control.Control) {
			if known = e.kernel.naming.Driver != 0; known {
				err = e.kernel.raiseWeight(own)
			}
		})
		if known {
			e.dedup.WarnOrClear("weight", "the agent may answer the container runtime too late on a busy machine", err)
			sleep.For(ctx, e.Period)
		}
		sleep.For(ctx, tickEvery)
	}
}

// raiseWeight raises the weight of the pod that a cgroup is part of to that of the agent. It does
// nothing for a cgroup that is not part of a pod. The error includes too low a weight of the tier.
func (k *kernel) raiseWeight(own string) error {
	where, ok := k.naming.Parse(own)
	for ; !ok && own != "/"; where, ok = k.naming.Parse(own) {
		own = path.Dir(own)
	}
	if !ok || where.Container == "" {
		return nil
	}
	version := k.groups.Layout().CPU
	pod, least := path.Dir(own), kubepods.PodWeight(version, ownShares)
	s, err := k.groups.ReadParts(pod, cgroup.Parts{Weight: true, Idle: true})
	if err == nil && s.Weight < least && !s.Idle {
		err = writer{kernel: k}.Apply(map[string]cgroup.Wanted{pod: {Weight: &least}}).Err()
	}
	if err != nil {
		return err
	}
	tier := k.naming.Tier(where.Tier)
	s, err = k.groups.ReadParts(tier, cgroup.Parts{Weight: true})
	if err == nil && s.Weight < kubepods.PodWeight(version, minTierShares) {
		err = fmt.Errorf("%s has a weight of %d for all its pods: give the agent a CPU request of 100m", tier, s.Weight)
	}
	return err
}
