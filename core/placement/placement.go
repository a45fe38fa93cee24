package placement

import (
	"errors"
	"fmt"
	"strings"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/core/topology"
)

// Policy says what a request wants of the CPUs it is given.
type Policy string

const (
	// Static wants CPUs that nobody else gets.
	Static Policy = "static"
	// StaticBurst wants to be confined to the shared CPUs of few NUMA nodes.
	StaticBurst Policy = "static-burst"
)

// FullCores says how a static request feels about split cores: physical cores of
// which it would hold some online threads and not others.
type FullCores string

const (
	// FullCoresPreferred avoids split cores where criteria 1 to 3 leave a choice.
	FullCoresPreferred FullCores = "preferred"
	// FullCoresRequired refuses any placement that splits a core.
	FullCoresRequired FullCores = "required"
)

// Limit is an upper bound on how many CPUs a static request may take out of some
// NUMA nodes together, beyond what is free there: the shared CPUs that others
// confined to these nodes still need. See package ledger.
type Limit struct {
	// NUMANodes are the nodes that the limit is over; nil means the whole machine.
	// [topology.NoNUMA] stands for the CPUs without a node.
	NUMANodes []topology.NUMAID
	// CPUs is the largest number of CPUs that may be taken there, 0 or more.
	CPUs int
}

// Request is one question to [Index.Place].
type Request struct {
	// CPUs is the number of CPUs wanted, at least 1.
	CPUs int
	// Policy is Static when empty.
	Policy Policy
	// FullCores is FullCoresPreferred when empty. Only Static looks at it.
	FullCores FullCores
	// Limits must all hold for a static placement.
	Limits []Limit
	// Admit, when set, is asked about the NUMA nodes of a static-burst placement,
	// ascending; a false answer passes to the next best choice. The slice is only
	// valid during the call.
	Admit func(nodes []topology.NUMAID) bool
}

// Quality says how good a set of CPUs is by the criteria of the package comment.
type Quality struct {
	Kinds      int // kinds of core
	NUMANodes  int // NUMA nodes; CPUs without a node count as one more
	Distance   int // sum of the distances between those nodes, over ordered pairs
	SplitCores int // cores of which the set holds some online threads and not others
	LLCs       int // last-level caches
	Packages   int
}

// Result is a placement.
type Result struct {
	// CPUs are the CPUs chosen: for Static exactly as many as wanted, for
	// StaticBurst all shared CPUs of the chosen nodes.
	CPUs cpuset.Set
	// Quality is that of CPUs.
	Quality Quality
	// Exact is false when criteria 1 to 5 are not proved optimal: the machine has
	// very many NUMA nodes, or the limits tie many of them together (see the
	// package comment).
	Exact bool
}

// ErrInvalid is wrapped by errors about a request that no machine could serve.
var ErrInvalid = errors.New("invalid placement request")

// InsufficientError says that the machine has not enough CPUs for a request now.
type InsufficientError struct {
	Want int
	// Have is the largest number of CPUs that a request of the same policy and
	// FullCores could get; under overlapping Limits it may be less than that.
	Have      int
	Policy    Policy
	FullCores FullCores
	// Lower and Higher are the nearest numbers that could be had when Have is not
	// below Want: whole cores do not make every number. Lower is 0 without one.
	Lower, Higher int
}

func (e *InsufficientError) Error() string {
	if e.Have >= e.Want {
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
	return fmt.Sprintf("%s wanted, but at most %s %s free for it", quantity.Count(e.Want, "CPU"), have, verb)
}
