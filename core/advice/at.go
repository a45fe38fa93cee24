package advice

import (
	"fmt"

	"pinfold.dev/pinfold/core/quantity"
)

// limitAt is the limit that advice is for.
type limitAt struct {
	cpus float64 // 0 when there is none
	name string
}

// limitToAdviseFor returns the present limit, or the advised one with burst where none was
// recorded.
func (sub *subject) limitToAdviseFor(advised Limit) limitAt {
	if cpus, limited := sub.limit(); limited {
		return limitAt{cpus: cpus, name: fmt.Sprintf("the present limit of %s", quantity.CPUs(cpus))}
	}
	if !advised.Enough {
		return limitAt{}
	}
	return limitAt{cpus: advised.LimitCPUs, name: fmt.Sprintf("the advised limit of %s (none was recorded)", quantity.CPUs(advised.LimitCPUs))}
}

// unknown says why nothing can be said at this limit; "" when something can.
func (at limitAt) unknown(sub *subject) string {
	switch {
	case sub.unknown != "":
		return sub.unknown
	case at.cpus == 0 && sub.unsure != "":
		return sub.unsure
	case at.cpus == 0:
		return "not enough data: no limit was recorded, and none can be advised"
	}
	return ""
}

// lacking says why no shares of periods can be advised on at this limit.
func (at limitAt) lacking(sub *subject) string {
	if reason := at.unknown(sub); reason != "" {
		return reason
	}
	return sub.unsure
}
