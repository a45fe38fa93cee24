package tracefile

import (
	"time"

	"pinfold.dev/pinfold/core/trace"
)

// Header is the metadata that is known before the first sample of a recording.
type Header struct {
	Start    time.Time     // wall clock when the recording began: At of the samples is since then
	Interval time.Duration // nominal, > 0
}

// Row is one sample of one control group.
type Row struct {
	Group string // path in the hierarchy
	Name  string // NAMESPACE/POD/CONTAINER, "" when not known
	trace.Sample
}

// writer writes the rows of one recording. Close writes what is missing, and leaves the
// file itself to the caller.
type writer interface {
	Write(r *Row) error
	Close() error
}
