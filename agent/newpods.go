package agent

import (
	"context"
	"fmt"
	"path"
	"time"

	"github.com/fsnotify/fsnotify"

	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/linux/cgroup"
)

// watchGroups gives the group of each pod its CPUs as soon as the kubelet has made it, until
// the context ends. The sandbox comes some 100 ms later, and is not asked about: it has the
// CPUs of the pod's group then. Without the watch the rounds do it, too late for that.
func (e *engine) watchGroups(ctx context.Context, period, retry time.Duration) {
	for ctx.Err() == nil {
		if err := e.watchTiers(ctx, period, retry); ctx.Err() == nil {
			e.dedup.warn(e.log, "watch", "new pods are noticed a little later: the groups of pods cannot be watched", err)
			sleep.For(ctx, period)
		}
	}
}

func (e *engine) watchTiers(ctx context.Context, period, retry time.Duration) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("make a watcher of files: %w", err)
	}
	defer watcher.Close()
	again := time.NewTimer(0)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-watcher.Errors:
			return fmt.Errorf("watch the groups of pods: %w", err)
		case event := <-watcher.Events:
			if event.Has(fsnotify.Create) {
				e.newPod(ctx, event.Name)
			}
		case <-again.C: // the tiers may not be there yet, or others may be
			tiers := e.tiers()
			for _, dir := range tiers {
				if err := watcher.Add(dir); err != nil {
					return fmt.Errorf("watch the groups of pods: %w", err)
				}
			}
			if again.Reset(period); len(tiers) == 0 {
				again.Reset(retry)
			}
		}
	}
}

// tiers are the directories that pods' groups are made in; none while they are not known.
func (e *engine) tiers() (dirs []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.kernel.naming.Driver == 0 {
		return nil
	}
	for _, t := range nodeplan.Tiers() {
		if tier := e.kernel.naming.Tier(t); e.kernel.groups.Exists(tier) {
			dirs = append(dirs, e.kernel.groups.Dir(cgroup.CPUSet, tier))
		}
	}
	return dirs
}

// appears bounds how long the kubelet may need to make a pod's group in all hierarchies.
const appears = 200 * time.Millisecond

// newPod narrows the group of a new pod.
func (e *engine) newPod(ctx context.Context, dir string) {
	group := e.kernel.groups.GroupAt(dir)
	for began := time.Now(); ctx.Err() == nil && time.Since(began) < appears; sleep.For(ctx, 5*time.Millisecond) {
		if e.narrowNew(group) {
			return
		}
	}
}

// narrowNew reports whether nothing is left to do about a group.
func (e *engine) narrowNew(group string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if where, ok := e.kernel.naming.Parse(path.Clean(group)); !ok || where.PodUID == "" || where.Container != "" {
		return true // not a pod's
	}
	if !(runtimeHandler{e}).learn(group) {
		return false
	}
	e.asked++ // what a round is reading meanwhile may be older
	e.decide()
	return true
}
