package perfetto

import (
	"fmt"
	"time"

	"pinfold.dev/pinfold/core/blame"
	"pinfold.dev/pinfold/report"
)

// Trace writes what the threads of containers did: a track for each container, below it one for each of its
// threads and one for the CPU time that its quota has left, and a track for each CPU.
type Trace struct {
	*Writer
	// Container, Thread and Occupant return names.
	Container func(blame.Group) string
	Thread    func(blame.Thread) string
	Occupant  func(blame.Occupant) string

	containers map[blame.Group]Track
	quotas     map[blame.Group]Track
	threads    map[threadOf]Track
	cpus       map[int]Track
}

// threadOf is a thread while it counts for a container.
type threadOf struct {
	container blame.Group
	id        int
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

func (t *Trace) container(g blame.Group) Track {
	return trackIn(&t.containers, g, func() Track { return t.Track(t.Container(g), 0) })
}

// Add writes a span of a thread that counts for a group. Sleeping threads are shown by gaps.
func (t *Trace) Add(group blame.Group, s blame.Span) {
	thread := func() Track {
		return trackIn(&t.threads, threadOf{group, s.Thread.ID}, func() Track { return t.Track(t.Thread(s.Thread), t.container(group)) })
	}
	switch s.State {
	case blame.Running:
		t.Slice(thread(), fmt.Sprint("running on CPU ", s.CPU), s.From, s.To)
		cpu := trackIn(&t.cpus, s.CPU, func() Track { return t.Track(fmt.Sprint("CPU ", s.CPU), 0) })
		t.Slice(cpu, t.Container(group), s.From, s.To)
	case blame.Throttled:
		t.Slice(thread(), "throttled", s.From, s.To)
	case blame.Waiting:
		t.Slice(thread(), "waiting behind "+report.Behind(s.By, group, t.Occupant), s.From, s.To)
	case blame.Unknown:
		t.Slice(thread(), "unknown", s.From, s.To)
	case blame.Sleeping, blame.Dead:
	}
}

// Edge writes the CPU time that a group's quota had left before and after its timer gave out more.
func (t *Trace) Edge(e blame.Event) {
	g := e.Thread.Group
	counter := trackIn(&t.quotas, g, func() Track { return t.Counter("quota left at edges, "+t.Container(g), "us", t.container(g)) })
	t.Count(counter, e.Time-1, int64(e.Quota.Before/time.Microsecond))
	t.Count(counter, e.Time, int64(e.Quota.Left/time.Microsecond))
}
