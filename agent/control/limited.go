package control

import (
	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/linux/cgroup"
)

// limited is a group whose bandwidth is planned.
type limited struct {
	ref  nodeplan.Ref // without a container's name it is the pod's own
	path string
	pod  string // the path of the pod's group
	want nodeplan.Settings
	nodeplan.Raising
	resizes bool // quota is the kubelet's to change now
	// kubelets is what the kubelet would set.
	kubelets bandwidth.Limits
	// namespace and name are the pod's.
	namespace, name string
}

func (l *limited) isPod() bool { return l.ref.Container == "" }

// raised reports whether the quota that is wanted is above that of the limit.
func (l *limited) raised() bool { return l.want.Quota > l.Base.Quota }

// limitedGroups are the groups of pods and their containers that are there.
func (c *Control) limitedGroups(d nodeplan.Desired, g groups) (all []limited) {
	for i := range d.Pods {
		p := &d.Pods[i]
		s := c.pod(p.ID)
		if api.HasEnded(s.object) {
			continue
		}
		of := limited{ref: nodeplan.Ref{Pod: p.ID}, pod: g.pods[p.ID], resizes: s.kubeletResizes(),
			namespace: s.object.Namespace, name: s.object.Name}
		add := func(container, path string, want nodeplan.Settings, raising nodeplan.Raising) {
			if !c.exists(path) {
				return
			}
			l := of
			l.ref.Container, l.path, l.want, l.Raising = container, path, want, raising
			l.kubelets = c.desired.ordinary[l.ref]
			all = append(all, l)
		}
		add("", of.pod, p.Settings, p.Raising)
		for j := range p.Containers {
			container := &p.Containers[j]
			ref := nodeplan.Ref{Pod: p.ID, Container: container.Name}
			add(ref.Container, g.containers[ref], container.Settings, container.Raising)
		}
	}
	return all
}

// Limited is a running container that has a quota.
type Limited struct {
	Ref                        nodeplan.Ref
	Namespace, Name, Container string // of the pod, and in it
	Group                      string
	// Base is the bandwidth of its limit.
	Base bandwidth.Limits
	// Present is what its group holds, as far as it is known.
	Present cgroup.Settings
	// Raise is the zero value when its quota is not raised.
	Raise Raise
}

func (l *limited) public() Limited {
	return Limited{Ref: l.ref, Namespace: l.namespace, Name: l.name, Container: l.ref.Container, Group: l.path, Base: l.Base}
}

// Limited returns the containers that have a quota.
func (c *Control) Limited() (all []Limited) {
	for i := range c.limited {
		l := &c.limited[i]
		if l.isPod() || l.Base.Quota == bandwidth.Unlimited || !c.exists(l.path) {
			continue
		}
		of := l.public()
		of.Present, of.Raise = c.view.Settings[l.path], c.raised[l.path]
		all = append(all, of)
	}
	return all
}
