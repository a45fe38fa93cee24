package survey

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/kube/api"
)

// room is what nodes have for a pod if no other pod runs there.
type room struct {
	// empty are the books of nodes whose topology is usable, by the name of one of several that are alike.
	empty map[string]*ledger.Books
	// unknown is the largest capacity of the others, and largest that of all nodes.
	unknown, largest int
}

// room returns that of all nodes.
func (a *assembly) room() room {
	type likeness struct {
		*placement.Index
		ledger.Config
	}
	r, seen := room{empty: map[string]*ledger.Books{}}, map[likeness]bool{}
	for _, node := range a.Nodes {
		capacity := int(node.Status.Capacity.Cpu().Value())
		r.largest = max(r.largest, capacity)
		_, t := a.topology(node.Name, node)
		if t == nil {
			r.unknown = max(r.unknown, capacity)
		} else if like := (likeness{t.Index, emptyConfig(node, t)}); !seen[like] {
			seen[like] = true
			r.empty[node.Name] = ledger.New(like.Index, like.Config)
		}
	}
	return r
}

// emptyConfig returns the settings of a node's books, with the default of minSharedCPUs.
func emptyConfig(node *corev1.Node, t *Topology) ledger.Config {
	return ledger.Config{Reserved: t.State.Reserved(node), ReservedCPUs: t.State.ReservedCPUs, MinShared: api.DefaultMinSharedCPUs}
}

// tooLarge returns why a node without pods cannot serve one, or nil.
func tooLarge(books *ledger.Books, ask *ledger.Ask) error {
	_, err := books.Rate(*ask)
	var e *ledger.ExclusiveError
	if errors.As(err, &e) && e.GaveUp {
		return nil
	}
	return err
}

// refuses returns why no node can ever serve a pod, or "".
func (r *room) refuses(ask *ledger.Ask) string {
	cpus, most, largest := ask.CPUs(), 0, ""
	switch {
	case r.largest == 0:
		return ""
	case cpus > r.largest:
		return fmt.Sprintf("it asks for %d CPUs, and the largest node has %d", cpus, r.largest)
	case cpus <= r.unknown:
		return ""
	}
	for name, books := range r.empty {
		err := tooLarge(books, ask)
		if err == nil {
			return ""
		}
		if online := books.Machine().Online().Len(); online > most || online == most && name < largest {
			most, largest = online, name
		}
	}
	if largest == "" {
		return ""
	}
	return fmt.Sprintf("no node serves it, even without other pods: %v on %s (reserved CPUs stay shared, and at least one unless minSharedCPUs is 0)", tooLarge(r.empty[largest], ask), largest)
}
