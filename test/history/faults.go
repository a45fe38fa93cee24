package history

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/local/localcluster"
	"pinfold.dev/pinfold/local/supervisor"
)

// damage is what a driver does to nodes for some operations, and then undoes.
type damage struct {
	*Driver
	// intact are the topologies without any damage, by node, as last read.
	intact map[string]*nodetopology.NodeTopology
	undo   map[int][]func(context.Context) error // by the operation before which it is due
}

func newDamage(d *Driver) *damage {
	return &damage{d, map[string]*nodetopology.NodeTopology{}, map[int][]func(context.Context) error{}}
}

// maxUndo is the largest number of operations before damage is undone.
const maxUndo = 20

// later schedules a function that undoes damage after some operations.
func (d *damage) later(steps int, do func(context.Context) error) {
	at := d.step + 1 + min(steps, maxUndo)
	d.undo[at] = append(d.undo[at], do)
}

func (d *damage) undoDue(ctx context.Context, step int) error {
	due := d.undo[step]
	delete(d.undo, step)
	for _, do := range due {
		if err := d.await(ctx, func() error { return do(ctx) }); err != nil {
			return fmt.Errorf("undo before operation %d: %w", step, err)
		}
	}
	return nil
}

func (d *damage) victim() string { return d.Victims[d.Random.IntN(len(d.Victims))] }

// cordon makes a node unschedulable for some operations.
func (d *damage) cordon(ctx context.Context) error {
	node, steps := d.victim(), d.Random.IntN(maxUndo)
	set := func(ctx context.Context, unschedulable bool) error {
		_, err := d.Client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType,
			fmt.Appendf(nil, `{"spec":{"unschedulable":%v}}`, unschedulable), metav1.PatchOptions{})
		return err
	}
	d.later(steps, func(ctx context.Context) error { return set(ctx, false) })
	d.Log("cordon %s for %d operations", node, steps)
	return d.await(ctx, func() error { return set(ctx, true) })
}

// reregister deletes a node and creates it again, as after a repair of the machine. Its pods
// remain. Its topology is deleted with it and restored some operations later.
func (d *damage) reregister(ctx context.Context) error {
	name, steps := d.victim(), d.Random.IntN(maxUndo)
	d.Log("reregister %s, and its topology after %d operations", name, steps)
	nodes := d.Client.CoreV1().Nodes()
	node, err := await(ctx, d.Driver, func() (*corev1.Node, error) { return nodes.Get(ctx, name, metav1.GetOptions{}) })
	if err != nil {
		return err
	}
	if err := d.deleteTopologyFor(ctx, name, steps); err != nil {
		return err
	}
	options := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(node.UID))}
	if err := d.try(ctx, func() error { return nodes.Delete(ctx, name, options) }); err != nil {
		return err
	}
	node.ResourceVersion, node.UID = "", ""
	return createObject(ctx, d.Driver, nodes.Create, node)
}

func (d *damage) deleteTopology(ctx context.Context) error {
	name, steps := d.victim(), d.Random.IntN(maxUndo)
	d.Log("delete the topology of %s for %d operations", name, steps)
	return d.deleteTopologyFor(ctx, name, steps)
}

// deleteTopologyFor deletes a topology, if it exists, and restores it later, as an agent would.
func (d *damage) deleteTopologyFor(ctx context.Context, name string, steps int) error {
	var gone types.UID
	err := d.await(ctx, func() error {
		last, err := d.topology(ctx, name)
		if err != nil || last == nil {
			return err
		}
		// A request without an answer may be carried out after the topology is restored. And what is
		// restored must be all that the agent has published.
		gone = last.UID
		err = d.Topologies.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &gone, ResourceVersion: &last.ResourceVersion}})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
	d.later(steps, func(ctx context.Context) error { return d.restoreTopology(ctx, name, gone) })
	return err
}

// restoreTopology restores a topology after it was deleted. It returns an error while one exists
// that is to be deleted: that with the UID gone, whose deletion was not answered, or one that
// belongs to an earlier registration of the node, with which it will be deleted.
func (d *damage) restoreTopology(ctx context.Context, name string, gone types.UID) error {
	if d.intact[name] == nil {
		return nil // there never was one
	}
	node, err := d.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	object := d.intact[name].DeepCopy()
	object.ResourceVersion, object.UID = "", ""
	nodetopology.OwnedByNode(object, node.UID)
	topologies := d.Topologies
	if _, err = topologies.Create(ctx, object, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		return err
	}
	now, err := topologies.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	ofNode := func(o metav1.OwnerReference) bool { return o.UID == node.UID }
	if now.UID == gone || !slices.ContainsFunc(now.OwnerReferences, ofNode) {
		_ = topologies.Delete(ctx, name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(now.UID))})
		return fmt.Errorf("topology %s was not deleted", name)
	}
	return nil
}

// damageTopology removes a core for a while.
func (d *damage) damageTopology(ctx context.Context) error {
	name, steps := d.victim(), d.Random.IntN(maxUndo)
	kept, err := d.topology(ctx, name)
	if err != nil || kept == nil || !isIntact(kept) {
		return err
	}
	topologies := d.Topologies
	d.later(steps, func(ctx context.Context) error {
		now, err := topologies.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil // the operation that deleted it, or its node, restores it
		}
		if err == nil {
			now.Machine = kept.Machine
			_, err = topologies.Update(ctx, now, metav1.UpdateOptions{})
		}
		return err
	})
	d.Log("damage the topology of %s for %d operations", name, steps)
	damaged := kept.DeepCopy()
	_, damaged.Machine.Cores, _ = strings.Cut(damaged.Machine.Cores, " ")
	return d.try(ctx, func() error {
		_, err := topologies.Update(ctx, damaged, metav1.UpdateOptions{})
		return err
	})
}

// topology returns nil if the topology does not exist.
func (d *damage) topology(ctx context.Context, name string) (*nodetopology.NodeTopology, error) {
	object, err := await(ctx, d.Driver, func() (*nodetopology.NodeTopology, error) {
		object, err := d.Topologies.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil, nil //nolint:nilnil // it does not exist
		}
		return object, err
	})
	if err == nil && object != nil {
		intact := object.DeepCopy()
		if earlier := d.intact[name]; earlier != nil {
			intact.Machine = earlier.Machine
		}
		if isIntact(intact) {
			d.intact[name] = intact
		}
	}
	return object, err
}

func isIntact(topology *nodetopology.NodeTopology) bool {
	_, _, err := nodetopology.ToMachine(topology)
	return err == nil
}

// await returns what a request gives once it succeeds.
func await[T any](ctx context.Context, d *Driver, request func() (T, error)) (value T, err error) {
	err = d.await(ctx, func() (err error) {
		value, err = request()
		return err
	})
	return value, err
}

func (d *Driver) component() string { return d.Components[d.Random.IntN(len(d.Components))] }

// kill kills a component. Its supervisor restarts it.
func (d *Driver) kill(ctx context.Context) error {
	component := d.component()
	d.Log("kill %s", component)
	return d.Signal(ctx, component, syscall.SIGKILL)
}

// stop suspends a component for a time. The operations continue, as far as possible.
func (d *Driver) stop(ctx context.Context) error {
	component, length := d.component(), time.Duration(20+d.Random.IntN(2000))*time.Millisecond
	d.Log("stop %s for %v", component, length)
	if err := d.Signal(ctx, component, syscall.SIGSTOP); err != nil {
		return err
	}
	time.AfterFunc(length, func() {
		if err := d.Signal(ctx, component, syscall.SIGCONT); err != nil {
			d.Log("continue %s: %v", component, err)
		}
	})
	return nil
}

// restartAgent kills the agent of a node. The next one may not find what the last one has saved.
func (d *Driver) restartAgent(ctx context.Context) error {
	node, forgets := d.Allocators[d.Random.IntN(len(d.Allocators))], d.Random.IntN(3) == 0
	d.Log("restart the agent of %s: forgets %v", node, forgets)
	return d.RestartAgent(ctx, node, forgets)
}

// Processes sends signals to the components of a local cluster.
type Processes struct {
	Dir string // the cluster's data directory

	mu      sync.Mutex
	stopped map[string]int // PIDs by component
}

// Signal sends a signal to a component as soon as the component is ready, because a supervisor
// gives up on a process that is repeatedly killed before it is. SIGCONT goes to the process that
// was stopped, if it still exists.
func (p *Processes) Signal(ctx context.Context, component string, signal syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if signal == syscall.SIGCONT {
		pid := p.stopped[component]
		delete(p.stopped, component)
		return send(pid, signal)
	}
	for attempt := 1; ; attempt++ {
		state, err := localcluster.ReadState(p.Dir)
		status, _ := state.Component(component)
		if err == nil && status.State == supervisor.Ready {
			if signal == syscall.SIGSTOP {
				if p.stopped == nil {
					p.stopped = map[string]int{}
				}
				p.stopped[component] = status.PID
			}
			return send(status.PID, signal)
		}
		if attempt == patience || !sleep.For(ctx, retryPause) {
			return fmt.Errorf("component %s is in state %q: %w", component, status.State, errors.Join(err, ctx.Err()))
		}
	}
}

func send(pid int, signal syscall.Signal) error {
	if pid == 0 {
		return nil
	}
	if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signal process %d: %w", pid, err)
	}
	return nil
}
