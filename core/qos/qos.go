// Package qos has the two classes of a pod: the Kubernetes QoS class, which follows from its requests
// and limits and determines where its cgroup is ([Tier]), and the co-location class, which its
// author chooses ([Class]). They are independent.
package qos

// Tier is the Kubernetes QoS class of a pod, which determines its parent cgroup.
type Tier string

// The tiers. The cgroups of Guaranteed pods are directly in kubepods.
const (
	Guaranteed Tier = "Guaranteed"
	Burstable  Tier = "Burstable"
	BestEffort Tier = "BestEffort"
)

// Tiers returns all tiers, parents first.
func Tiers() []Tier { return []Tier{Guaranteed, Burstable, BestEffort} }

// Class is the co-location class of a pod, "" if it has none.
type Class string

// The classes. LS (latency-sensitive) pods have priority when CPU time is short; BE (best-effort)
// pods are batch work.
const (
	LS Class = "LS"
	BE Class = "BE"
)
