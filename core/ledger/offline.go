package ledger

import (
	"fmt"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
)

// Offline is a static container some of whose CPUs are offline. They stay its own.
type Offline struct {
	Pod       PodID
	Container string
	// CPUs are those that are offline, Left those that are not.
	CPUs, Left cpuset.Set
}

// Describe writes the finding for a user, with pods as podName names them.
func (o Offline) Describe(podName func(PodID) string) string {
	where, verb := "in the shared CPUs", "is"
	if !o.Left.IsEmpty() {
		where = "on " + cpuList(o.Left)
	}
	if o.CPUs.Len() > 1 {
		verb = "are"
	}
	return fmt.Sprintf("container %q of pod %s runs %s: its %s %s offline, and nobody else's meanwhile",
		o.Container, podName(o.Pod), where, cpuList(o.CPUs), verb)
}

// String is Describe with the ids of pods for names.
func (o Offline) String() string {
	return o.Describe(func(id PodID) string { return string(id) })
}

// Offline returns the static containers that miss CPUs, by the ID of their pod.
func (b *Books) Offline() (found []Offline) {
	if b.exclusive.IsSubsetOf(b.online) {
		return nil
	}
	for _, e := range b.entries {
		if e.static.IsSubsetOf(b.online) || b.loses(e) {
			continue
		}
		for i := range e.claim.Containers {
			c := &e.claim.Containers[i]
			if c.Policy == placement.Static && !c.CPUs.IsSubsetOf(b.online) {
				found = append(found, Offline{Pod: e.claim.ID, Container: c.Name,
					CPUs: c.CPUs.Difference(b.online), Left: c.CPUs.Intersection(b.online)})
			}
		}
	}
	return found
}
