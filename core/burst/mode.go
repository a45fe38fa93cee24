package burst

import "slices"

// Mode selects how a container may temporarily exceed its CPU limit. The zero value leaves that
// open.
type Mode string

// The modes.
const (
	None   Mode = "none"
	Kernel Mode = "burst"
	Quota  Mode = "quota"
	Auto   Mode = "auto"
)

// Mechanisms are the ways to exceed a limit that a mode uses. Each adds to the others. One that took
// something away would let modes without it pass a ceiling that has it: a weaker form of a mechanism
// is a field of its own, which modes with the whole of it have, too.
type Mechanisms struct {
	Kernel bool // the kernel grants quota that was not used before
	Quota  bool // the agent raises the quota
}

// and returns the mechanisms that both use. It has no names of fields, so that it does not compile
// without a new one.
func (m Mechanisms) and(other Mechanisms) Mechanisms {
	return Mechanisms{m.Kernel && other.Kernel, m.Quota && other.Quota}
}

// Definition is what a mode does. All that distinguishes modes follows from it.
type Definition struct {
	Mode Mode
	Mechanisms
	// Koordinator is its name in the annotations of Koordinator and ACK, or "".
	Koordinator string
}

// definitions are those of all modes. Invariant: a mode stands after those that use less than it
// does.
type definitions []Definition

// Definitions returns what the modes do that a user can choose.
func Definitions() []Definition {
	return definitions{
		{None, Mechanisms{}, "none"},
		{Kernel, Mechanisms{Kernel: true}, "cpuBurstOnly"},
		{Quota, Mechanisms{Quota: true}, "cfsQuotaBurstOnly"},
		{Auto, Mechanisms{Kernel: true, Quota: true}, "auto"},
	}
}

// Modes returns all modes that a user can choose.
func Modes() (modes []Mode) {
	for _, d := range Definitions() {
		modes = append(modes, d.Mode)
	}
	return modes
}

// Uses returns what the mode uses: nothing if it is unset or unknown.
func (m Mode) Uses() Mechanisms {
	uses, _ := definitions(Definitions()).of(m)
	return uses
}

// Within returns the mode restricted to the mechanisms of most.
func (m Mode) Within(most Mode) Mode { return definitions(Definitions()).within(m, most) }

func (all definitions) of(m Mode) (uses Mechanisms, known bool) {
	if at := slices.IndexFunc(all, func(d Definition) bool { return d.Mode == m }); at >= 0 {
		return all[at].Mechanisms, true
	}
	return uses, false
}

func (all definitions) within(m, most Mode) Mode {
	if m == "" {
		return m
	}
	uses, _ := all.of(m)
	limit, _ := all.of(most)
	return all.using(uses.and(limit), m, most)
}

// using returns the mode that uses these mechanisms, or as many of them as a mode does. It is one
// of the preferred ones if that uses just these.
func (all definitions) using(these Mechanisms, preferred ...Mode) Mode {
	for _, m := range preferred {
		if uses, known := all.of(m); known && uses == these {
			return m
		}
	}
	for _, d := range slices.Backward(all) {
		if d.and(these) == d.Mechanisms {
			return d.Mode
		}
	}
	return None
}
