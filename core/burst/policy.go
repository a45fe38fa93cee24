package burst

import "cmp"

// Mode selects how a container may temporarily exceed its CPU limit.
type Mode string

// The modes. The zero value leaves the mode open.
const (
	None   Mode = "none"
	Kernel Mode = "burst" // the kernel grants quota that was not used before
	Quota  Mode = "quota" // the agent raises the quota
	Auto   Mode = "auto"  // both
)

// UsesKernel reports whether the mode includes the kernel's burst.
func (m Mode) UsesKernel() bool { return m == Kernel || m == Auto }

// RaisesQuota reports whether the mode includes raising the quota.
func (m Mode) RaisesQuota() bool { return m == Quota || m == Auto }

// Within returns the mode restricted to the mechanisms of most.
func (m Mode) Within(most Mode) Mode {
	switch {
	case m == "" || m == most || most == Auto:
		return m
	case m == Auto:
		return most
	}
	return None
}

// NoEnd is a QuotaBurstSeconds that sets no end: a quota may stay raised as long as saved quota
// lasts.
const NoEnd = -1

// Policy defines how far a container may exceed its CPU limit. Zero fields are unset; see
// [Policy.Or].
type Policy struct {
	Mode Mode `json:"policy,omitempty"`
	// BurstPercent of the quota can be saved, at most 10000. The kernel serves the first 100.
	BurstPercent int `json:"burstPercent,omitempty"`
	// QuotaPercent of the limit is the highest quota, 100 to 10000. At 100, the quota is never
	// raised.
	QuotaPercent int `json:"quotaPercent,omitempty"`
	// QuotaBurstSeconds is how long a full bucket lasts at the highest quota, or NoEnd.
	QuotaBurstSeconds int `json:"quotaBurstSeconds,omitempty"`
}

// Or returns the policy with its unset fields taken from others.
func (p Policy) Or(others Policy) Policy {
	return Policy{
		Mode:              cmp.Or(p.Mode, others.Mode),
		BurstPercent:      cmp.Or(p.BurstPercent, others.BurstPercent),
		QuotaPercent:      cmp.Or(p.QuotaPercent, others.QuotaPercent),
		QuotaBurstSeconds: cmp.Or(p.QuotaBurstSeconds, others.QuotaBurstSeconds),
	}
}

// WithKernel returns the policy with the given kernel burst in percent, 0 for none. Whether it
// raises the quota does not change.
func (p Policy) WithKernel(percent int) Policy {
	raises := p.Mode.RaisesQuota()
	switch {
	case percent == 0 && raises:
		p.Mode = Quota
	case percent == 0:
		p.Mode = None
	case raises:
		p.Mode = Auto
	default:
		p.Mode = Kernel
	}
	if min(p.BurstPercent, 100) != percent { // the part above 100 is not the kernel's
		p.BurstPercent = percent
	}
	return p
}
