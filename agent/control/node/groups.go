package node

import (
	"path"

	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/nodeplan"
)

// unknownMark is the first character of [nodeplan.Ref.Container] for cgroups of unknown containers.
// Kubernetes allows it in no container name.
const unknownMark = "#"

// Groups are the paths of the cgroups of pods and containers. The containers include unknown and
// others.
type Groups struct {
	Pods       map[ledger.PodID]string
	Containers map[nodeplan.Ref]string
	Unknown    []nodeplan.Ref // with the id of an unknown container, such as a sandbox
	Others     []nodeplan.Ref // with a name that is not a container's
}

// Locate finds the cgroups of all pods and containers.
func Locate(pods *Pods, view *View) Groups {
	g := Groups{Pods: map[ledger.PodID]string{}, Containers: map[nodeplan.Ref]string{}}
	names := map[ledger.PodID]map[string]string{} // of containers, by id
	for i := range pods.all {
		s := &pods.all[i]
		names[s.Plan.ID] = map[string]string{}
		for j := range s.Plan.Containers {
			name := s.Plan.Containers[j].Name
			if id := pods.idOf(s, name); id != "" {
				names[s.Plan.ID][id] = name
			}
		}
	}
	for _, pod := range view.Pods {
		id := ledger.PodID(pod.UID)
		g.Pods[id] = pod.Path
		for _, container := range pod.Containers {
			ref := nodeplan.Ref{Pod: id, Container: names[id][container.ID]}
			if ref.Container == "" {
				ref.Container = unknownMark + container.ID
				g.Unknown = append(g.Unknown, ref)
			}
			g.Containers[ref] = container.Path
		}
		for _, other := range pod.Others {
			ref := nodeplan.Ref{Pod: id, Container: unknownMark + path.Base(other)}
			g.Others = append(g.Others, ref)
			g.Containers[ref] = other
		}
	}
	return g
}
