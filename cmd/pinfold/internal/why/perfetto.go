//go:build linux

package why

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"pinfold.dev/pinfold/cmd/pinfold/internal/frame"
	"pinfold.dev/pinfold/cmd/pinfold/internal/groups"
	"pinfold.dev/pinfold/core/blame"
	"pinfold.dev/pinfold/internal/atomicfile"
	"pinfold.dev/pinfold/linux/schedtrace"
	"pinfold.dev/pinfold/report"
	"pinfold.dev/pinfold/report/perfetto"
)

// perfettoOutput is the file for a trace viewer.
type perfettoOutput struct {
	name    string // "" for none
	replace bool
}

// write calls observe, and writes what it observes to the file, which appears when all of it is written.
func (p *perfettoOutput) write(request *schedtrace.Request, names *groups.Names, observe func() error) error {
	if p.name == "" {
		return observe()
	}
	err := atomicfile.WriteFunc(p.name, atomicfile.Options{Perm: 0o644, KeepOld: !p.replace}, func(f *os.File) error {
		trace := tracer(f, names)
		request.Span = func(seen *schedtrace.Observation, group blame.Group, s blame.Span) { trace(seen).Add(group, s) }
		request.Edge = func(seen *schedtrace.Observation, e blame.Event) { trace(seen).Edge(e) }
		if err := observe(); err != nil {
			return err
		}
		return trace(nil).Close()
	})
	if errors.Is(err, fs.ErrExist) {
		return frame.SuggestForce(err)
	}
	return err
}

// tracer returns a trace that gets its names from an observation.
func tracer(f *os.File, names *groups.Names) func(*schedtrace.Observation) *perfetto.Trace {
	var seen *schedtrace.Observation
	trace := &perfetto.Trace{
		Writer:    perfetto.New(f, perfetto.Clocks{Monotonic: schedtrace.Now(), Real: time.Now()}),
		Container: func(g blame.Group) string { return report.Printable(names.Of(seen.Path(g))) },
		Thread: func(t blame.Thread) string {
			return report.Printable(fmt.Sprintf("%s %d", seen.Process(t.Process), t.ID))
		},
		Occupant: func(by blame.Occupant) string { return occupant(seen, names, by) },
	}
	return func(o *schedtrace.Observation) *perfetto.Trace {
		seen = o
		return trace
	}
}
