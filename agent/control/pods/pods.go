// Package pods holds what the API server, the kubelet and the container runtime say about the pods
// of a node.
//
//	p := pods.New(pods.Config{...})
//	p.SetPods(objects, runs)     // from the API server
//	p.SetStaticPods(static)      // from the kubelet
//	p.Created(now, ref, id)      // from the runtime
//	for i := range p.All { ... } // the result
//
// A pod that the API server has no longer keeps its limits while it runs.
package pods

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/core/burst"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/kube/api"
)

// Config is the administrator's choice.
type Config struct {
	Ceilings api.Ceilings // limit what pods can get by their annotations
	Burst    burst.Policy // of pods without one
}

// forgetAfter is the time after which a container that the runtime announced, but that has neither
// cgroup nor status, is forgotten: its creation has failed.
const forgetAfter = 30 * time.Second

// created is a container that the runtime has announced.
type created struct {
	id string
	at time.Time
}

// Pods are the pods of a node. The methods must not be called concurrently.
type Pods struct {
	All []Pod
	// Listed is set once the API server has been reached.
	Listed bool
	config Config
	// static are the names of the static pods that the kubelet is known to run, by the kubelet's
	// ids.
	static map[ledger.PodID]types.NamespacedName
	// runtime are the containers that the runtime has announced and no pod status contains yet.
	runtime map[nodeplan.Ref]created
}

// New returns a node without pods.
func New(c Config) *Pods {
	return &Pods{config: c, static: map[ledger.PodID]types.NamespacedName{}, runtime: map[nodeplan.Ref]created{}}
}

// read returns a pod with its annotations limited to the ceilings. Its policy is completed by the
// agent's.
func (p *Pods) read(object *corev1.Pod) Pod {
	s := newPod(object)
	ceiling := p.config.Ceilings.For(object.Namespace)
	requested := s.Annotations
	_, burstExceeds := ceiling.CapBurst(requested.Burst) // without the agent's policy
	s.Annotations.Burst, _ = ceiling.CapBurst(requested.Burst.Or(p.config.Burst))
	period, periodExceeds := ceiling.CapPeriod(requested.Period)
	s.Annotations.Period = period
	s.AboveCeiling = slices.DeleteFunc([]string{burstExceeds, periodExceeds}, func(text string) bool { return text == "" })
	return s
}

// SetCeilings replaces the ceilings.
func (p *Pods) SetCeilings(ceilings api.Ceilings) {
	p.config.Ceilings = ceilings
	p.All = slices.Clone(p.All) // the last round refers to the pods
	for i, s := range p.All {
		if !s.Departed {
			p.All[i] = p.read(s.Object)
			p.All[i].denied, p.All[i].Plan.ID = s.denied, s.Plan.ID
		}
	}
}

// SetPods sets all pods that are bound to the node. Those that were set before and still run keep
// their limits; see [Pod.depart].
func (p *Pods) SetPods(objects []*corev1.Pod, runs func(ledger.PodID) bool) {
	before := make(map[types.UID]Pod, len(p.All))
	for _, s := range p.All {
		before[s.Object.UID] = s
	}
	last := p.All
	p.All, p.Listed = nil, true
	for _, object := range objects {
		s, ok := before[object.UID]
		if !ok || s.Departed || s.Object != object {
			denied := ok && s.denied && mirrored(s.Object) == mirrored(object)
			s = p.read(object)
			s.denied = denied
		}
		s.Plan.ID = p.groupID(object)
		p.All = append(p.All, s)
		delete(before, object.UID)
	}
	for _, s := range last {
		if _, gone := before[s.Object.UID]; gone && runs(s.Plan.ID) && p.Get(s.Plan.ID) == nil {
			if p.CanBeForged(s.Object) { // the kubelet goes on with a static pod, and makes a mirror pod again
				s = s.depart()
			}
			p.All = append(p.All, s)
		}
	}
}

// Forget removes pods that the API server has no longer and that do not run.
func (p *Pods) Forget(runs func(ledger.PodID) bool) {
	gone := func(s Pod) bool { return s.Departed && !runs(s.Plan.ID) }
	if slices.ContainsFunc(p.All, gone) {
		p.All = slices.DeleteFunc(slices.Clone(p.All), gone) // the last round refers to the pods
	}
}

// Get returns the pod with this id, as the kubelet uses it, or nil.
func (p *Pods) Get(id ledger.PodID) *Pod { return Find(p.All, id) }

// Find returns the pod with this id, as the kubelet uses it, or nil.
func Find(all []Pod, id ledger.PodID) *Pod {
	for i := range all {
		if all[i].Plan.ID == id {
			return &all[i]
		}
	}
	return nil
}

// NameOf returns NAMESPACE/NAME, or the id of an unknown pod.
func NameOf(all []Pod, id ledger.PodID) string {
	if s := Find(all, id); s != nil {
		return s.Name()
	}
	return string(id)
}

// Created records that the runtime is about to create a container.
func (p *Pods) Created(now time.Time, ref nodeplan.Ref, id string) { p.runtime[ref] = created{id, now} }

// Stopped records that a container has stopped.
func (p *Pods) Stopped(ref nodeplan.Ref, id string) {
	if p.runtime[ref].id == id {
		delete(p.runtime, ref)
	}
}

// IsCreated reports whether the runtime has announced a container that no pod status contains yet.
func (p *Pods) IsCreated(ref nodeplan.Ref) bool {
	_, ok := p.runtime[ref]
	return ok
}

// ForgetCreated removes announced containers that are now in a pod's status, and those whose
// creation failed. exists contains the ids of containers that have cgroups.
func (p *Pods) ForgetCreated(now time.Time, exists map[string]bool) {
	for ref, made := range p.runtime {
		s := p.Get(ref.Pod)
		inStatus := s != nil && s.IDs[ref.Container] == made.id
		if inStatus || now.Sub(made.at) > forgetAfter && !exists[made.id] {
			delete(p.runtime, ref)
		}
	}
}

// KnownIDs returns the ids of all known containers. Of other containers only the CPUs need to be
// observed.
func (p *Pods) KnownIDs() map[string]bool {
	ids := map[string]bool{}
	for _, made := range p.runtime {
		ids[made.id] = true
	}
	for i := range p.All {
		for _, id := range p.All[i].IDs {
			ids[id] = true
		}
	}
	return ids
}

// Containers returns the names of the containers by pod and id. The runtime knows the id earlier
// than the pod's status.
func (p *Pods) Containers() map[ledger.PodID]map[string]string {
	names := make(map[ledger.PodID]map[string]string, len(p.All))
	for i := range p.All {
		s := &p.All[i]
		of := map[string]string{}
		for j := range s.Plan.Containers {
			name := s.Plan.Containers[j].Name
			id := s.IDs[name]
			if made, ok := p.runtime[nodeplan.Ref{Pod: s.Plan.ID, Container: name}]; ok {
				id = made.id
			}
			if id != "" {
				of[id] = name
			}
		}
		names[s.Plan.ID] = of
	}
	return names
}
