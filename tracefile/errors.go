package tracefile

import (
	"errors"
	"fmt"
)

// What callers branch on, with errors.Is.
var (
	// ErrEmpty says that a file holds no sample.
	ErrEmpty = errors.New("nothing is recorded in it")
	// ErrNoInterval says that an .npy file was opened without saying how long its
	// samples are.
	ErrNoInterval = errors.New("an .npy file does not say how long its samples are")
)

// JournalExistsError reports that a recording to the same file is in progress or was not finished.
type JournalExistsError struct{ Journal string }

func (e *JournalExistsError) Error() string {
	return fmt.Sprintf("%s is there, of a recording that goes on or was not finished", e.Journal)
}

// KeptError reports that a recording could not be converted to its output and is still in its
// journal.
type KeptError struct {
	Journal string
	Err     error
}

func (e *KeptError) Error() string {
	return fmt.Sprintf("%v; what was recorded is in %s", e.Err, e.Journal)
}

func (e *KeptError) Unwrap() error { return e.Err }

// FormatError reports an unknown file name extension.
type FormatError struct{ Name string }

func (e *FormatError) Error() string {
	return fmt.Sprintf("%s: what format is it to have? Let its name end in .parquet, .csv or .npy, or use - for CSV on standard output", e.Name)
}
