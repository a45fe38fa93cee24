package agent

import (
	"context"
	"fmt"
	"path"
	"time"

	"github.com/fsnotify/fsnotify"
	"k8s.io/apimachinery/pkg/util/wait"

	"pinfold.dev/pinfold/core/qos"
	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/linux/cgroup"
)

// newPods notices the cgroups of new pods.
type newPods struct{ *engine }

// watch narrows the cgroup of each new pod as soon as the kubelet has made it, until the
// context ends. The sandbox is created some 100 ms later, without asking, and inherits the CPUs of
// the pod's cgroup. Rounds alone would narrow it too late.
func (n newPods) watch(ctx context.Context) {
	for ctx.Err() == nil {
		if err := n.watchTiers(ctx); ctx.Err() == nil {
			n.reports.dedup.Warn("watch", "new pods are noticed a little later: the groups of pods cannot be watched", err)
			sleep.For(ctx, n.Period)
		}
	}
}

func (n newPods) watchTiers(ctx context.Context) error {
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
				n.awaitNewPod(ctx, event.Name)
			}
		case <-again.C: // the tiers may be created or replaced later
			tiers := n.tierDirs()
			for _, dir := range tiers {
				if err := watcher.Add(dir); err != nil {
					return fmt.Errorf("watch the groups of pods: %w", err)
				}
			}
			if again.Reset(n.Period); len(tiers) == 0 {
				again.Reset(n.RetryAfter)
			}
		}
	}
}

// tierDirs returns the directories that contain the pods' cgroups, or nothing until they are known.
func (n newPods) tierDirs() (dirs []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.kernel.naming.Driver == 0 {
		return nil
	}
	for _, t := range qos.Tiers() {
		if tier := n.kernel.naming.Tier(t); n.kernel.groups.Exists(tier) {
			dirs = append(dirs, n.kernel.groups.Dir(cgroup.CPUSet, tier))
		}
	}
	return dirs
}

// maxHierarchyDelay is how long the kubelet may take to make a pod's cgroup in all hierarchies.
const maxHierarchyDelay = 200 * time.Millisecond

// awaitNewPod narrows a new pod's cgroup once it exists in all hierarchies.
func (n newPods) awaitNewPod(ctx context.Context, dir string) {
	group := n.kernel.groups.GroupAt(dir)
	// If it cannot be read in time, the next round narrows it.
	_ = wait.PollUntilContextTimeout(ctx, 5*time.Millisecond, maxHierarchyDelay, true, func(context.Context) (bool, error) {
		return n.narrowNewPod(group), nil
	})
}

// narrowNewPod narrows the cgroup of a new pod. It returns false if the cgroup cannot be read yet.
func (n newPods) narrowNewPod(group string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if where, ok := n.kernel.naming.Parse(path.Clean(group)); !ok || where.PodUID == "" || where.Container != "" {
		return true // not a pod's
	}
	if !n.addGroup(group) {
		return false
	}
	n.changes++
	n.decide()
	return true
}
