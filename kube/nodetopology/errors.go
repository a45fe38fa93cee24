package nodetopology

import (
	"errors"
	"fmt"
)

// ErrForeign is wrapped by errors about objects that somebody else has written.
var ErrForeign = errors.New("written by somebody else")

// ForeignError says that the object of a node is not ours to read or to write.
type ForeignError struct {
	Node   string
	Writer string // see [Owner]
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf("NodeResourceTopology %s was %v (%s): stop that writer on the node or delete the object, "+
		"then the Pinfold agent publishes its own", e.Node, ErrForeign, e.Writer)
}

// Unwrap makes errors.Is(err, [ErrForeign]) true.
func (e *ForeignError) Unwrap() error { return ErrForeign }

// MalformedError says what is wrong with an object that bears our mark.
type MalformedError struct {
	Node      string
	Zone      string // "" for the object itself
	Attribute string // "" when it is not about one attribute
	Err       error
}

func (e *MalformedError) Error() string {
	where := "NodeResourceTopology " + e.Node
	if e.Zone != "" {
		where += fmt.Sprintf(": zone %q", e.Zone)
	}
	if e.Attribute != "" {
		where += fmt.Sprintf(": attribute %q", e.Attribute)
	}
	return where + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *MalformedError) Unwrap() error { return e.Err }

var (
	errMissing = errors.New("missing")
	errTwice   = errors.New("listed twice")
)

// at is the error of one place in an object; the node is filled in by ToMachine.
func at(zone, attribute string, err error) error {
	return &MalformedError{Zone: zone, Attribute: attribute, Err: err}
}
