package ledger

import (
	"fmt"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
)

// Rule names a rule of the package comment.
type Rule string

// The rules that can be broken by what comes in beside the scheduler.
const (
	RuleRequests   Rule = "requests"   // rule 1
	RuleConfined   Rule = "confined"   // rule 2
	RuleLimit      Rule = "limit"      // rule 3
	RuleLeastShare Rule = "min-shared" // rule 4
)

// Overflow is a rule that is violated at present.
type Overflow struct {
	Rule Rule
	// NUMANodes are the union that RuleConfined is broken for, or the confinement of the pod; nil
	// for rules about the whole machine.
	NUMANodes []topology.NUMAID
	// Pod is whom RuleLimit is broken for.
	Pod PodID
	// Need is what should be shared, Have is what is.
	Need, Have MilliCPU
}

// Describe formats the overflow for users. It names pods with podName.
func (o Overflow) Describe(podName func(PodID) string) string {
	switch o.Rule {
	case RuleRequests:
		return fmt.Sprintf("%s CPUs are requested of the shared CPUs or reserved, %s are shared", o.Need, o.Have)
	case RuleConfined:
		return fmt.Sprintf("%s CPUs are requested by containers confined to NUMA %s, %s of its CPUs are shared",
			o.Need, nodeList(o.NUMANodes), o.Have)
	case RuleLimit:
		return fmt.Sprintf("the static-burst containers of pod %s may use %s CPUs of NUMA %s at a time, %s of its CPUs are shared",
			podName(o.Pod), o.Need, nodeList(o.NUMANodes), o.Have)
	case RuleLeastShare:
		return fmt.Sprintf("%s CPUs must stay shared, %s are", o.Need, o.Have)
	}
	panic(fmt.Sprintf("ledger: overflow of unknown rule %q", o.Rule))
}

// String returns Describe with pod IDs as names.
func (o Overflow) String() string {
	return o.Describe(func(id PodID) string { return string(id) })
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
	for _, union := range b.serve(cpuset.Set{}).cuts() {
		all := b.cpusOf(union)
		report(Overflow{Rule: RuleConfined, NUMANodes: b.ids(union), Need: b.demandWithin(all),
			Have: wholeCPUs(shared.Intersection(all).Len())})
	}
	for _, e := range b.entries {
		if len(e.confined) == 0 || b.loses(e) {
			continue
		}
		for _, c := range e.confined {
			report(Overflow{Rule: RuleLimit, NUMANodes: b.ids(c.nodes), Pod: e.claim.ID,
				Need: wholeCPUs(c.limit), Have: wholeCPUs(shared.Intersection(c.cpus).Len())})
		}
	}
	report(Overflow{Rule: RuleLeastShare, Need: wholeCPUs(b.config.MinShared), Have: wholeCPUs(shared.Len())})
	return broken
}
