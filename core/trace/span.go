package trace

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"pinfold.dev/pinfold/core/blame"
)

// Span is the form of a [blame.Span] or of a [blame.Edge] event in a recording.
type Span struct {
	Group    string        // path of the cgroup that is charged, or whose quota it is
	Name     string        // of a container, "namespace/pod/container"; "" if not known
	From, To time.Duration // since the start of the recording; equal at an edge

	State       blame.State
	Thread, CPU int
	Process     string // name of the thread's process; "" if not known
	Behind      string // what it waits for, if State is Waiting

	Quota *blame.Quota // at an edge; the fields about threads are then empty
}

// Within reports whether the span is of a group or one below it.
func (s *Span) Within(group string) bool {
	below, ok := strings.CutPrefix(s.Group, strings.TrimSuffix(group, "/"))
	return ok && (below == "" || below[0] == '/')
}

// Validate returns an error if the span is impossible.
func (s *Span) Validate() error {
	switch {
	case s.From > s.To:
		return fmt.Errorf("the span ends %v before it begins", s.From-s.To)
	case max(s.From.Abs(), s.To.Abs()) > MaxTime:
		return errors.New("the span is more than 100 years from the start")
	case s.Quota != nil:
		return nil
	case s.Thread <= 0:
		return fmt.Errorf("the thread is %d, want more than 0", s.Thread)
	}
	if s.State > blame.Dead {
		return fmt.Errorf("%v is not known", s.State)
	}
	return nil
}
