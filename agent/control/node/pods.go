package node

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/core/burst"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/api"
)

// forgetAfter is the time after which a container that the runtime announced, but that has neither
// cgroup nor status, is forgotten: its creation has failed.
const forgetAfter = 30 * time.Second

// created is a container that the runtime has announced.
type created struct {
	id string
	at time.Time
}

// Pods are the pods of the node, of the API server and those that run without it, and what the
// runtime and the kubelet say about them.
type Pods struct {
	keys     *api.Keys
	ceilings api.Ceilings
	policy   burst.Policy // of pods without one
	machine  *topology.Machine
	all      []Pod
	at       map[ledger.PodID]int // where pods were found last
	listed   bool
	// static are the names of the static pods that the kubelet is known to run, by the kubelet's
	// ids.
	static map[ledger.PodID]types.NamespacedName
	// runtime are the containers that the runtime has announced and no pod status contains yet.
	runtime map[nodeplan.Ref]created
}

// NewPods returns no pods. The annotations of pods are completed from policy and limited by the
// ceilings. Keys verify the signatures of allocations; without keys every allocation is accepted.
func NewPods(keys *api.Keys, ceilings api.Ceilings, policy burst.Policy) *Pods {
	return &Pods{keys: keys, ceilings: ceilings.Allowing(policy), policy: policy, at: map[ledger.PodID]int{},
		static: map[ledger.PodID]types.NamespacedName{}, runtime: map[nodeplan.Ref]created{}}
}

// Listed reports whether the API server's pods have been set.
func (p *Pods) Listed() bool { return p.listed }

// All returns all pods. They remain valid until the next change.
func (p *Pods) All() []Pod { return p.all }

// Of returns the pod with this id, as the kubelet uses it, or nil.
func (p *Pods) Of(id ledger.PodID) *Pod {
	if at, ok := p.at[id]; ok && at < len(p.all) && p.all[at].Plan.ID == id {
		return &p.all[at]
	}
	delete(p.at, id)
	for i := range p.all {
		if p.all[i].Plan.ID == id {
			p.at[id] = i
			return &p.all[i]
		}
	}
	return nil
}

// NameOf returns NAMESPACE/NAME, or the id of an unknown pod.
func (p *Pods) NameOf(id ledger.PodID) string {
	if s := p.Of(id); s != nil {
		return s.Name()
	}
	return string(id)
}

// NewNotice returns a notice about a pod, or about the node if the pod is unknown.
func (p *Pods) NewNotice(id ledger.PodID, reason, message string) Notice {
	n := Notice{Reason: reason, Message: message}
	if s := p.Of(id); s != nil {
		n.Pod = s.Object
	}
	return n
}

// SetMachine checks the allocations against a machine.
func (p *Pods) SetMachine(m *topology.Machine) {
	p.machine = m
	for i := range p.all {
		departed := p.all[i].Departed
		if p.all[i] = p.new(p.all[i].Object); departed {
			p.all[i] = p.all[i].depart()
		}
	}
}

// Set sets all pods that are bound to the node. Those that were set before and still run keep their
// limits; see [Pod.depart].
func (p *Pods) Set(pods []*corev1.Pod, view *View) {
	before := make(map[types.UID]Pod, len(p.all))
	for _, s := range p.all {
		before[s.Object.UID] = s
	}
	last := p.all
	p.all, p.listed = nil, true
	clear(p.at)
	for _, object := range pods {
		state, ok := before[object.UID]
		if !ok || state.Departed || state.Object != object {
			denied := ok && state.denied && mirrored(state.Object) == mirrored(object)
			state = p.new(object)
			state.denied = denied
		}
		state.Plan.ID = p.groupID(object)
		p.at[state.Plan.ID] = len(p.all)
		p.all = append(p.all, state)
		delete(before, object.UID)
	}
	for _, s := range last {
		if _, gone := before[s.Object.UID]; gone && view.runs(s.Plan.ID) && p.Of(s.Plan.ID) == nil {
			p.all = append(p.all, s.depart())
		}
	}
}

// Observed forgets pods that the API server has no longer and whose containers have ended.
func (p *Pods) Observed(view *View) {
	p.all = slices.DeleteFunc(p.all, func(s Pod) bool { return s.Departed && !view.runs(s.Plan.ID) })
}

// new returns a pod with the agent's burst policy, and annotations limited to the ceilings.
func (p *Pods) new(object *corev1.Pod) Pod {
	s := NewPod(object, p.machine, p.keys)
	ceiling := p.ceilings.For(object.Namespace)
	requested := s.Annotations
	_, burstExceeds := ceiling.CapBurst(requested.Burst) // without the agent's policy
	s.Annotations.Burst, _ = ceiling.CapBurst(requested.Burst.Or(p.policy))
	period, periodExceeds := ceiling.CapPeriod(requested.Period)
	s.Annotations.Period = period
	s.AboveCeiling = slices.DeleteFunc([]string{burstExceeds, periodExceeds}, func(text string) bool { return text == "" })
	return s
}

// Cap limits annotations to the ceilings of a namespace.
func (p *Pods) Cap(namespace string, a Annotations) Annotations {
	ceiling := p.ceilings.For(namespace)
	a.Burst, _ = ceiling.CapBurst(a.Burst)
	a.Period, _ = ceiling.CapPeriod(a.Period)
	return a
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
// creation failed.
func (p *Pods) ForgetCreated(view *View, now time.Time) {
	exists := map[string]bool{}
	for _, pod := range view.Pods {
		for _, container := range pod.Containers {
			exists[container.ID] = true
		}
	}
	maps.DeleteFunc(p.runtime, func(ref nodeplan.Ref, made created) bool {
		s := p.Of(ref.Pod)
		inStatus := s != nil && s.IDs[ref.Container] == made.id
		return inStatus || now.Sub(made.at) > forgetAfter && !exists[made.id]
	})
}

// KnownIDs returns the ids of all known containers. Of other containers only the CPUs need to be
// observed.
func (p *Pods) KnownIDs() map[string]bool {
	ids := map[string]bool{}
	for _, made := range p.runtime {
		ids[made.id] = true
	}
	for i := range p.all {
		for _, id := range p.all[i].IDs {
			ids[id] = true
		}
	}
	return ids
}

// idOf returns the id of a container, or "". The runtime knows it earlier than the pod's status.
func (p *Pods) idOf(s *Pod, name string) string {
	if made, ok := p.runtime[nodeplan.Ref{Pod: s.Plan.ID, Container: name}]; ok {
		return made.id
	}
	return s.IDs[name]
}

// Problems returns the problems of pods' allocations.
func (p *Pods) Problems() (problems []Notice) {
	for i := range p.all {
		if s := &p.all[i]; s.Problem != nil {
			problems = append(problems, Notice{s.Object, BadAllocation, fmt.Sprintf("pod %s: %v", s.Name(), s.Problem)})
		}
	}
	return problems
}

// AnnotationNotes returns what is wrong with pods' annotations and labels.
func (p *Pods) AnnotationNotes() (notes []Notice) {
	for i := range p.all {
		s := &p.all[i]
		for _, message := range s.AboveCeiling {
			notes = append(notes, s.Notice(AboveCeiling, message))
		}
		for _, message := range s.Unknown {
			notes = append(notes, s.Notice(UnknownKey, message))
		}
	}
	return notes
}
