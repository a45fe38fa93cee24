package agent

import (
	"context"
	"fmt"
	"path"
	"time"

	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/kubepods"
)

// ownShares is the weight that the agent gives its own container and pod: that of a request
// of one CPU. A request of so much would be reserved and hardly used. With the weight of a
// small request, 5 ms of work take seconds beside busy neighbours, and the runtime does not
// wait for an answer as long.
const ownShares = 1024

// leastTier is the weight below which a whole tier of pods is too weak for the agent in it,
// that of the request in deploy/manifests. The tier's weight is the kubelet's, which writes it
// each minute and whenever a pod comes.
const leastTier = 100

// keepWeight keeps the agent's own weight until the context ends. Others write it, too: the
// kubelet at a resize, systemd when it reloads.
func (e *engine) keepWeight(ctx context.Context, period time.Duration) {
	own, err := e.kernel.groups.Own(cgroup.CPU)
	if err != nil {
		e.log.Warn("the agent keeps the CPU weight of its request", "error", err)
		return
	}
	for ctx.Err() == nil {
		e.mu.Lock()
		naming := e.kernel.naming
		e.mu.Unlock()
		if naming.Driver != 0 {
			e.dedup.warnOrClear(e.log, "weight", "the agent may answer the container runtime too late on a busy machine", weigh(e.kernel.groups, naming, own))
			sleep.For(ctx, period)
		}
		sleep.For(ctx, tickEvery)
	}
}

// weigh gives the container that a group belongs to, and its pod, the agent's weight where
// theirs is lower. A group that is in no pod is left alone.
func weigh(groups *cgroup.FS, naming kubepods.Naming, own string) error {
	where, ok := naming.Parse(own)
	for ; !ok && own != "/"; where, ok = naming.Parse(own) {
		own = path.Dir(own)
	}
	if !ok || where.Container == "" {
		return nil
	}
	version := groups.Layout().CPU
	wanted := map[string]cgroup.Wanted{}
	for group, least := range map[string]cgroup.Weight{own: kubepods.ContainerWeight(version, ownShares), path.Dir(own): kubepods.PodWeight(version, ownShares)} {
		s, err := groups.ReadParts(group, cgroup.Parts{Weight: true, Idle: true})
		if err != nil {
			return err
		}
		if s.Weight < least && !s.Idle {
			wanted[group] = cgroup.Wanted{Weight: &least}
		}
	}
	if err := groups.Apply(wanted).Err(); err != nil {
		return err
	}
	tier := naming.Tier(where.Tier)
	s, err := groups.ReadParts(tier, cgroup.Parts{Weight: true})
	if err == nil && s.Weight < kubepods.PodWeight(version, leastTier) {
		err = fmt.Errorf("%s has a weight of %d for all its pods: give the agent a CPU request of 100m", tier, s.Weight)
	}
	return err
}
