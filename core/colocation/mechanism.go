package colocation

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Mechanism is a way to put batch work behind online work in the kernel.
type Mechanism string

// The mechanisms.
const (
	// Idle is cpu.idle of the groups of batch pods: they run when nothing else wants the CPU.
	Idle Mechanism = "idle"
	// CoreScheduling keeps batch work off the cores on which other work runs.
	CoreScheduling Mechanism = "core-scheduling"
	// SchedExt is a scheduler for batch work that the agent loads into the kernel (sched_ext). Batch
	// pods are idle, too, for the times without it.
	SchedExt Mechanism = "sched_ext"
	// BVT is cpu.bvt_warp_ns, the file of Group Identity (Alibaba Cloud Linux, Anolis OS) and of its
	// predecessor, the scheduler plug-in "bvt and noise clean". It does what the other two do
	// together.
	BVT Mechanism = "bvt"
)

// Values of cpu.bvt_warp_ns: before all others, also on the core's other hardware threads, and
// behind them.
const (
	OnlineIdentity = 2
	BatchIdentity  = -1
)

// Mechanisms returns all mechanisms.
func Mechanisms() []Mechanism { return []Mechanism{Idle, CoreScheduling, SchedExt, BVT} }

// Priority is the administrator's choice of mechanisms. The zero value stands for none.
type Priority struct {
	auto   bool
	wanted []Mechanism
}

// ParsePriority parses "none", "auto", or mechanisms separated by commas. SchedExt includes Idle.
// The agent loads nothing into the kernel unless that is named, so "auto" is without SchedExt.
func ParsePriority(text string) (p Priority, err error) {
	switch text {
	case "none":
		return p, nil
	case "auto":
		return Priority{auto: true}, nil
	}
	for name := range strings.SplitSeq(text, ",") {
		m := Mechanism(name)
		if !slices.Contains(Mechanisms(), m) {
			return p, fmt.Errorf("there is no mechanism %q: use none or auto alone, or some of %q", name, Mechanisms())
		}
		if !slices.Contains(p.wanted, m) {
			p.wanted = append(p.wanted, m)
		}
	}
	if len(p.wanted) > 1 && p.Wants(BVT) {
		// Core scheduling beside Group Identity can lock up kernels (Koordinator's issue 1829).
		return Priority{}, errors.New("bvt does what the other mechanisms do, and some kernels hang if they are combined: use it alone")
	}
	if p.Wants(SchedExt) {
		if p.Wants(CoreScheduling) {
			return Priority{}, errors.New("sched_ext keeps batch pods off the cores of others itself: use it without core-scheduling")
		}
		if !p.Wants(Idle) {
			p.wanted = slices.Insert(p.wanted, 0, Idle)
		}
	}
	return p, nil
}

// Wants reports whether the administrator has named a mechanism.
func (p Priority) Wants(m Mechanism) bool { return slices.Contains(p.wanted, m) }

// IsNone reports whether no mechanism is to be used.
func (p Priority) IsNone() bool { return !p.auto && len(p.wanted) == 0 }

// String returns the text that ParsePriority parses.
func (p Priority) String() string {
	switch {
	case p.auto:
		return "auto"
	case p.IsNone():
		return "none"
	}
	names := make([]string, len(p.wanted))
	for i, m := range p.wanted {
		names[i] = string(m)
	}
	return strings.Join(names, ",")
}

// Choice is which mechanisms a node uses.
type Choice struct {
	Use []Mechanism
	// Lacking is the mechanisms that are wanted and not used.
	Lacking []Mechanism
}

// Uses reports whether a mechanism is used.
func (c Choice) Uses(m Mechanism) bool { return slices.Contains(c.Use, m) }

// Choose decides on a machine that lacks some mechanisms. If it has none of those that are wanted,
// Choose takes the next best.
func (p Priority) Choose(lacks func(Mechanism) bool) (c Choice) {
	available := func(m Mechanism) bool { return !lacks(m) }
	for _, m := range p.wanted {
		if available(m) {
			c.Use = append(c.Use, m)
		} else {
			c.Lacking = append(c.Lacking, m)
		}
	}
	if len(c.Use) > 0 || p.IsNone() {
		return c
	}
	if available(BVT) {
		c.Use = []Mechanism{BVT}
		return c
	}
	for _, m := range []Mechanism{Idle, CoreScheduling} {
		if available(m) {
			c.Use = append(c.Use, m)
		}
	}
	if p.auto && len(c.Use) == 0 {
		c.Lacking = []Mechanism{Idle, CoreScheduling, BVT}
	}
	return c
}
