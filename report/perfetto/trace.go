package perfetto

import (
	"fmt"
	"time"

	"pinfold.dev/pinfold/core/blame"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/report"
)

// Trace writes what the threads of containers did: a track for each container, below it one for
// each of its threads and one for the CPU time that its quota has left, and a track for each CPU.
type Trace struct {
	*Writer

	containers map[string]Track // by group
	quotas     map[string]Track
	threads    map[threadOf]Track
	cpus       map[int]Track
}

// threadOf is a thread while it counts for a group.
type threadOf struct {
	group string
	id    int
}

// trackIn returns the track for a key. The first call for a key makes the track.
func trackIn[K comparable](m *map[K]Track, key K, make func() Track) Track {
	if *m == nil {
		*m = map[K]Track{}
	}
	if (*m)[key] == 0 {
		(*m)[key] = make()
	}
	return (*m)[key]
}

// Add writes what a thread did, or an edge of a quota: the CPU time that was left before and after
// the timer gave out more. Sleeping threads are shown by gaps.
func (t *Trace) Add(s *trace.Span) {
	name := report.Printable(s.Name)
	if name == "" {
		name = report.Printable(s.Group)
	}
	container := trackIn(&t.containers, s.Group, func() Track { return t.Track(name, 0) })
	if s.Quota != nil {
		counter := trackIn(&t.quotas, s.Group, func() Track { return t.Counter("quota left at edges, "+name, "us", container) })
		t.Count(counter, max(0, s.To-1), int64(s.Quota.Before/time.Microsecond))
		t.Count(counter, s.To, int64(s.Quota.Left/time.Microsecond))
		return
	}
	if s.State == blame.Sleeping || s.State == blame.Dead {
		return
	}
	thread := trackIn(&t.threads, threadOf{s.Group, s.Thread}, func() Track {
		return t.Track(fmt.Sprint(report.Printable(s.Process), " ", s.Thread), container)
	})
	what := s.State.String()
	switch s.State {
	case blame.Running:
		what = fmt.Sprint("running on CPU ", s.CPU)
		cpu := trackIn(&t.cpus, s.CPU, func() Track { return t.Track(fmt.Sprint("CPU ", s.CPU), 0) })
		t.Slice(cpu, name, s.From, s.To)
	case blame.Waiting:
		what = "waiting behind " + report.Printable(s.Behind)
	}
	t.Slice(thread, what, s.From, s.To)
}
