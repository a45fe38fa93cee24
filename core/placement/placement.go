package placement

import (
	"errors"
	"fmt"
	"strings"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/core/topology"
)

// Policy is the kind of CPUs that a request gets.
type Policy string

const (
	// Static gets exclusive CPUs.
	Static Policy = "static"
	// StaticBurst is confined to the shared CPUs of few NUMA nodes.
	StaticBurst Policy = "static-burst"
)

// FullCores defines how a static request treats split cores: physical cores of which it would get
// some online threads but not all.
type FullCores string

const (
	// FullCoresPreferred avoids split cores where criteria 1 to 3 leave a choice.
	FullCoresPreferred FullCores = "preferred"
	// FullCoresRequired rejects every placement that splits a core.
	FullCoresRequired FullCores = "required"
)

// Limit is an upper bound on the number of CPUs that a static request may take from some NUMA nodes
// together, even if more are free there. It protects the shared CPUs that containers confined to
// these nodes request. See package ledger.
type Limit struct {
	// NUMANodes are the nodes that the limit covers; nil means the whole machine. [topology.NoNUMA]
	// stands for the CPUs without a node.
	NUMANodes []topology.NUMAID
	// CPUs is the largest number of CPUs that may be taken, 0 or more.
	CPUs int
}

// Request is a request for CPUs; see [Index.Place].
type Request struct {
	// CPUs is the number of CPUs wanted, at least 1.
	CPUs int
	// Policy is Static when empty.
	Policy Policy
	// FullCores is FullCoresPreferred when empty. StaticBurst ignores it.
	FullCores FullCores
	// Limits must all hold for a static placement.
	Limits []Limit
	// Admit, if not nil, reports whether a static-burst placement may use the given NUMA nodes,
	// which are ascending. If it returns false, the next best choice is tried. If it permits some
	// nodes, it must permit them with further ones.
	Admit func(nodes []topology.NUMAID) bool
	// Budget bounds the work. If it is nil, the request has a budget of its own.
	Budget *Budget
}

// Quality rates a set of CPUs by the criteria of the package comment.
type Quality struct {
	Kinds      int // designs of core
	NUMANodes  int // NUMA nodes; CPUs without a node count as one more
	Distance   int // sum of the distances between those nodes, over ordered pairs
	SplitCores int // cores of which the set holds some but not all online threads
	LLCs       int // last-level caches
	Packages   int
}

// Result is the placement chosen for a request.
type Result struct {
	// CPUs are the CPUs chosen: for Static exactly as many as wanted, for StaticBurst all shared
	// CPUs of the chosen nodes.
	CPUs cpuset.Set
	// Quality is that of CPUs.
	Quality Quality
	// Exact is false if the criteria are not proved optimal, because the budget was exhausted.
	Exact bool
}

// ErrInvalid is wrapped by errors about requests that are not valid on any machine.
var ErrInvalid = errors.New("invalid placement request")

// InsufficientError reports that the machine does not have enough CPUs for a request now.
type InsufficientError struct {
	Want int
	// Have is the largest number of CPUs that a request of the same policy and FullCores could get.
	// With overlapping Limits it may be too large.
	Have      int
	Policy    Policy
	FullCores FullCores
	// Lower and Higher are the nearest sums of whole cores if none is Want and Have is larger. They
	// are 0 otherwise.
	Lower, Higher int
	// GaveUp is true if the budget was exhausted before a placement was found.
	GaveUp bool
	// Isolated is true if some of the free CPUs are isolated, which no request gets.
	Isolated bool
}

func (e *InsufficientError) Error() string {
	if e.GaveUp {
		return fmt.Sprintf("%s wanted, but the search for them was given up: too many limits overlap", quantity.Count(e.Want, "CPU"))
	}
	if e.Higher > 0 {
		return fmt.Sprintf("%s wanted, but whole cores here make %d or %s", quantity.Count(e.Want, "CPU"), e.Lower, quantity.Count(e.Higher, "CPU"))
	}
	have := quantity.Count(e.Have, "CPU")
	verb := "are"
	if e.Have == 1 {
		verb = "is"
	}
	switch {
	case e.Policy == StaticBurst:
		have = strings.Replace(have, "CPU", "shared CPU", 1)
	case e.FullCores == FullCoresRequired:
		have += " in whole cores"
	}
	text := fmt.Sprintf("%s wanted, but at most %s %s free for it", quantity.Count(e.Want, "CPU"), have, verb)
	if e.Isolated {
		text += "; isolated CPUs (isolcpus) are not allocated"
	}
	return text
}
