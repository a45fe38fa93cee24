// Package agents keeps what the agents of nodes report: the topology and the allocations that each
// publishes, and whether it still renews its lease.
//
//	reports := agents.New("pinfold-system", 40*time.Second, time.Now)
//	err := reports.FollowLeases(ctx, client, changed)
//	changed := reports.Set(report) // of the informer, whose transform is reports.Transform
//	report := reports.Of(node)
package agents

import (
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/core/status"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/nodetopology"
)

// Report is one decoded version of a node's NodeTopology. The informer stores it in place
// of the object. It is immutable, so that its address identifies what the node has reported.
type Report struct {
	metav1.ObjectMeta // name and versions only
	nodetopology.Decoded
	// NotAllocated are pods whose CPUs the agent could not allocate.
	NotAllocated []types.UID
	// Silent is the time of the last renewal of the agent's lease if the agent is silent, otherwise
	// zero.
	Silent time.Time
}

// same reports whether two versions of an object have the same content.
func (r *Report) same(other *Report) bool {
	if r.Err != nil && other.Err != nil {
		return r.Err.Error() == other.Err.Error() && r.Owner == other.Owner
	}
	return r.sameButAllocations(other) && reflect.DeepEqual(r.State.Allocations, other.State.Allocations)
}

func (r *Report) sameButAllocations(other *Report) bool {
	return r.Owner == other.Owner && r.Index == other.Index && r.Err == nil && other.Err == nil && r.State.SameButAllocations(&other.State)
}

// Allocations returns what the node's agent has allocated, nil if it allocates nothing. r may be nil.
func (r *Report) Allocations() api.Allocations {
	if r == nil {
		return nil
	}
	return r.State.Allocations
}

// OnlyAllocated reports whether an agent reports nothing new since an earlier version but what it has
// allocated. before may be nil.
func (r *Report) OnlyAllocated(before *Report) bool {
	return r.Allocations() != nil && before.Allocations() != nil && r.Silent.Equal(before.Silent) && r.sameButAllocations(before)
}

// Reallocates reports whether a pod has lost CPUs, or has others, since an earlier version. That can make
// room for another pod: whole cores are free again after pods have moved.
func (r *Report) Reallocates(before *Report) bool {
	now := r.Allocations()
	for uid, a := range before.Allocations() {
		if b, kept := now[uid]; !kept || !a.Time.Equal(b.Time) {
			return true
		}
	}
	return false
}

// Usable reports whether the node has reported a topology from which books can be built. r may be
// nil.
func (r *Report) Usable() bool { return r != nil && r.Err == nil }

// Machine returns nil if the topology is not usable.
func (r *Report) Machine() *topology.Machine {
	if !r.Usable() {
		return nil
	}
	return r.Index.Machine()
}

// CPUs returns the number of CPUs of a usable topology.
func (r *Report) CPUs() int { return len(r.Index.Machine().CPUs) }

// Reports holds the report of every node that has made one.
type Reports struct {
	decoder *nodetopology.Decoder
	beats   *heartbeats
	nodes   sync.Map      // name to *Report
	changes atomic.Uint64 // of nodes, incremented after each that can change where pods fit
	mu      sync.Mutex    // held while nodes change
}

// New returns Reports without nodes. An agent that has not renewed its lease in the namespace for
// longer than the grace period is silent; with a grace period of 0 none is.
func New(namespace string, grace time.Duration, now func() time.Time) *Reports {
	return &Reports{decoder: nodetopology.NewDecoder(), beats: newHeartbeats(namespace, grace, now)}
}

// Transform is the informer's transform. It decodes an object so that its many strings can be
// collected.
func (r *Reports) Transform(obj any) (any, error) {
	if object, ok := obj.(*nodetopology.NodeTopology); ok {
		return r.Read(object), nil
	}
	return obj, nil
}

// Read decodes an object. It keeps the part of the metadata that the informer needs.
func (r *Reports) Read(obj *nodetopology.NodeTopology) *Report {
	decoded := r.decoder.Decode(obj)
	report := &Report{ObjectMeta: metav1.ObjectMeta{Name: obj.Name, UID: obj.UID, ResourceVersion: obj.ResourceVersion}, Decoded: decoded}
	for _, f := range decoded.State.Findings {
		if f.Reason == string(status.NotAllocated) {
			report.NotAllocated = append(report.NotAllocated, f.Pod)
		}
	}
	report.State.Findings = nil // they are for people
	return report
}

// Names returns the names of all nodes that have reported a topology.
func (r *Reports) Names() (names []string) {
	for name := range r.nodes.Range {
		names = append(names, name.(string))
	}
	return names
}

// Named returns nil if no node of this name has reported a topology.
func (r *Reports) Named(node string) *Report {
	if found, ok := r.nodes.Load(node); ok {
		return found.(*Report)
	}
	return nil
}

// Of returns nil if this node, and not an earlier one of its name, has not reported a topology.
func (r *Reports) Of(node *corev1.Node) *Report {
	if found := r.Named(node.Name); found != nil && found.IsOf(node.UID) {
		return found
	}
	return nil
}

// Changes returns the number of changes so far. It ignores those of OnlyAllocated.
func (r *Reports) Changes() uint64 { return r.changes.Load() }

// Set stores what a node reports. It returns false if that changes nothing.
func (r *Reports) Set(reported *Report) (changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if have := r.Named(reported.Name); have != nil && have.same(reported) {
		return false
	}
	r.store(*reported, r.beats.silence(reported.Name, reported.State.AgentLease))
	return true
}

// judge updates whether a node's agent is silent. It returns nil if that has not changed.
func (r *Reports) judge(node string) *Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	have := r.Named(node)
	if have == nil {
		return nil
	}
	silent := r.beats.silence(node, have.State.AgentLease)
	if silent.Equal(have.Silent) {
		return nil
	}
	return r.store(*have, silent)
}

func (r *Reports) store(now Report, silent time.Time) *Report {
	now.Silent = silent
	before := r.Named(now.Name)
	r.nodes.Store(now.Name, &now)
	if !now.OnlyAllocated(before) {
		r.changes.Add(1)
	}
	return &now
}

// Remove deletes the report of a node whose object was deleted. It reports whether there was one.
func (r *Reports) Remove(deleted *Report) (changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Named(deleted.Name) == nil {
		return false
	}
	r.nodes.Delete(deleted.Name)
	r.beats.forget(deleted.Name)
	r.changes.Add(1)
	return true
}
