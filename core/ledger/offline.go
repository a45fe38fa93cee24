package ledger

import (
	"fmt"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
)

// Offline is a static container with offline CPUs, which still belong to it.
type Offline struct {
	Pod       PodID
	Container string
	// CPUs are those that are offline, Left those that are not.
	CPUs, Left cpuset.Set
}

// Describe formats the finding for users. It names pods with podName.
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

// String returns Describe with pod IDs as names.
func (o Offline) String() string {
	return o.Describe(func(id PodID) string { return string(id) })
}

// Offline returns the static containers with offline CPUs, in the order of their pods' IDs.
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
