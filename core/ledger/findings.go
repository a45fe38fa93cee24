package ledger

import (
	"fmt"
	"strconv"
	"strings"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/core/topology"
)

func cpuList(s cpuset.Set) string { return quantity.Plural(s.Len(), "CPU") + " " + s.String() }

func nodeList(ids []topology.NUMAID) string {
	names := make([]string, len(ids))
	for i, id := range ids {
		if names[i] = strconv.Itoa(int(id)); id == topology.NoNUMA {
			names[i] = "none" // the CPUs without a node
		}
	}
	return quantity.Plural(len(ids), "node") + " " + strings.Join(names, ",")
}

// Rule is a rule of the package comment.
type Rule string

// The rules, which pods that were bound without the scheduler can violate.
const (
	RuleRequests   Rule = "requests"   // rule 1
	RuleConfined   Rule = "confined"   // rule 2
	RuleLeastShare Rule = "min-shared" // rule 4
)

// Overflow is a rule that is violated at present.
type Overflow struct {
	Rule Rule
	// NUMANodes are the union of RuleConfined, nil for rules about the whole machine.
	NUMANodes []topology.NUMAID
	// Need is the amount that should be shared, Have the amount that is.
	Need, Have MilliCPU
}

// String formats the overflow for users.
func (o Overflow) String() string {
	switch o.Rule {
	case RuleRequests:
		return fmt.Sprintf("%s CPUs are requested of the shared CPUs or reserved, %s are shared", o.Need, o.Have)
	case RuleConfined:
		return fmt.Sprintf("%s CPUs are requested by containers confined to NUMA %s, %s of its CPUs are shared",
			o.Need, nodeList(o.NUMANodes), o.Have)
	case RuleLeastShare:
		return fmt.Sprintf("%s CPUs must stay shared, %s are", o.Need, o.Have)
	}
	panic(fmt.Sprintf("ledger: overflow of unknown rule %q", o.Rule))
}

// Overflow returns the violated rules, in the order of the rules. For rule 2 it returns the
// smallest unions whose shortage equals the total amount that cannot be served.
func (b *Books) Overflow() []Overflow {
	var broken []Overflow
	shared := b.Shared()
	report := func(o Overflow) {
		if o.Need > o.Have {
			broken = append(broken, o)
		}
	}
	report(Overflow{Rule: RuleRequests, Need: b.SharedRequests(), Have: wholeCPUs(shared.Len())})
	var short []int
	for n, is := range b.short {
		if is {
			short = append(short, n)
		}
	}
	cpus := b.cpusOf(short)
	report(Overflow{Rule: RuleConfined, NUMANodes: b.ids(short), Need: b.demandWithin(cpus),
		Have: wholeCPUs(shared.Intersection(cpus).Len())})
	report(Overflow{Rule: RuleLeastShare, Need: wholeCPUs(b.config.MinShared), Have: wholeCPUs(shared.Len())})
	return broken
}

// Offline is a static container with offline CPUs, which still belong to it.
type Offline struct {
	Pod       PodID
	Container string
	// CPUs are the offline CPUs of the container, Left its online ones.
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
	return fmt.Sprintf("container %q of pod %s runs %s: its %s %s offline or withheld from pods, and kept for it",
		o.Container, podName(o.Pod), where, cpuList(o.CPUs), verb)
}

// String returns Describe with pod IDs as names.
func (o Offline) String() string { return o.Describe(PodID.String) }

// Offline returns the static containers with offline CPUs, in the order of their pods' IDs.
func (b *Books) Offline() (found []Offline) {
	if b.exclusive.IsSubsetOf(b.online) {
		return nil
	}
	for _, e := range b.entries {
		if e.static.IsSubsetOf(b.online) || e.lost {
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
