package control

import (
	"fmt"
	"path"
	"strings"

	"pinfold.dev/pinfold/core/ledger"
)

// UnknownGroup is the reason of a note about a group in a pod's cgroup whose name is not that of a
// container.
const UnknownGroup = "UnknownGroup"

// unknownGroups are the notes about groups whose names are no container's. That of CRI-O's
// monitor is known.
func (c *Control) unknownGroups() (notes []Notice) {
	if c.view == nil || c.kubelet == nil || !c.bound() {
		return nil
	}
	for _, pod := range c.view.Pods {
		for _, other := range pod.Others {
			if strings.Contains(path.Base(other), "conmon") {
				continue
			}
			n := c.About(ledger.PodID(pod.UID), UnknownGroup, fmt.Sprintf("group %s has no container's name", other))
			if s, ok := c.view.Settings[other]; ok {
				n.Message += fmt.Sprintf(": all that runs in it has CPUs %s. Where it runs containers of the pod, their own quota is not enforced", orNone(s.CPUs))
			} else {
				n.Message += " and no CPUs of its own: it has those of its pod's group"
			}
			notes = append(notes, n)
		}
	}
	return notes
}
