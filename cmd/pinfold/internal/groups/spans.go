//go:build linux

package groups

import (
	"fmt"
	"io"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/core/blame"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/linux/schedtrace"
	"pinfold.dev/pinfold/report"
	"pinfold.dev/pinfold/report/why"
)

// MaxCost is the largest share of the machine's CPU time that tracing may use by default.
const MaxCost = 0.05

// CheckCost returns an error unless --max-cost is above 0 and at most the whole machine.
func CheckCost(share float64) error {
	if !(share > 0 && share <= 1) {
		return frame.Usagef("--max-cost %v: give a share above 0, up to 100%%", quantity.Share(share))
	}
	return nil
}

// Tracing returns the options of a tracer that may use a share of the machine's CPU time, and notes
// which groups it cannot list.
func Tracing(maxCost float64, stderr io.Writer) schedtrace.Options {
	return schedtrace.Options{MaxShare: maxCost, Unlisted: func(err error) {
		frame.Notef(stderr, "some groups are not traced: %v", err)
	}}
}

// Occupant names what a thread waited behind: a container, another control group, or a process that
// is in none.
func Occupant(seen *schedtrace.Observation, names *Names, by blame.Occupant) string {
	group := seen.Path(by.Group)
	if group != "/" && group != "" {
		return report.Printable(names.Of(group))
	}
	if by.Process == blame.Rest {
		return "other processes"
	}
	if name := seen.Process(by.Process); name != "" {
		return report.Printable("process " + name)
	}
	return fmt.Sprintf("process %d", by.Process)
}

// Observe makes a tracer send what it observes to do, with names. Times are those of the tracer's
// clock.
func Observe(request *schedtrace.Request, names *Names, do func(*trace.Span)) {
	send := func(seen *schedtrace.Observation, g blame.Group, s trace.Span) {
		if s.Group = seen.Path(g); s.Group == "" {
			return // it ended before its name was read
		}
		if name := names.Of(s.Group); name != s.Group {
			s.Name = name
		}
		do(&s)
	}
	request.Span = func(seen *schedtrace.Observation, g blame.Group, s blame.Span) {
		named := trace.Span{From: s.From, To: s.To, State: s.State, Thread: s.Thread.ID, CPU: s.CPU, Process: seen.Process(s.Thread.Process)}
		if s.State == blame.Waiting {
			named.Behind = why.Behind(s.By, g, func(by blame.Occupant) string { return Occupant(seen, names, by) })
		}
		send(seen, g, named)
	}
	request.Edge = func(seen *schedtrace.Observation, e blame.Event) {
		send(seen, e.Thread.Group, trace.Span{From: e.Time, To: e.Time, Quota: e.Quota})
	}
}
