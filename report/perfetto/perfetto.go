// Package perfetto writes what threads did as a trace for Perfetto's viewer and trace processor
// (https://ui.perfetto.dev, https://perfetto.dev/docs/reference/trace-packet-proto):
//
//	t := perfetto.New(out, clocks)
//	t.Add(span)
//	err := t.Close()
package perfetto

import (
	"bufio"
	"fmt"
	"io"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"pinfold.dev/pinfold/core/blame"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/report"
)

// Clocks are the clocks of a machine, read at about the same time.
type Clocks struct {
	Monotonic time.Duration // of all events
	Real      time.Time
}

// track identifies a line in the viewer. The zero value means no track.
type track uint64

// Trace writes what the threads of containers did: a track for each container, below it one for
// each of its threads and one for the CPU time that its quota has left, and a track for each CPU.
// It is written packet by packet, so a trace that was cut off is readable up to there. After an
// error it writes nothing; Close returns the error.
type Trace struct {
	out    *bufio.Writer
	err    error
	names  map[string]uint64 // up to maxNames of the last interned
	tracks map[trackKey]track

	newestName uint64
	newest     track
}

// maxNames bounds the memory for the names of processes that come and go.
const maxNames = 10_000

// trackKey says what a track shows. Fields that do not matter are empty, and a CPU counts from 1.
type trackKey struct {
	group       string
	quota       bool
	thread, cpu int
}

// Numbers of the fields in protos/perfetto/trace of Perfetto.
const (
	tracePacket = 1 // of Trace

	packetClockSnapshot  = 6
	packetTimestamp      = 8
	packetSequence       = 10
	packetTrackEvent     = 11
	packetInterned       = 12
	packetSequenceFlags  = 13
	packetDefaults       = 59
	packetTrack          = 60
	defaultsClock        = 58
	snapshotClock        = 1
	snapshotPrimary      = 2
	clockID, clockTime   = 1, 2
	internedEventNames   = 2
	internedID, interned = 1, 2
	trackID, trackName   = 1, 2
	trackParent          = 5
	trackCounter         = 8
	counterUnitName      = 6
	eventType            = 9
	eventName            = 10
	eventTrack           = 11
	eventCounter         = 30
)

// Values of enumerations.
const (
	clockReal, clockMonotonic      = 1, 3
	stateCleared, needsState       = 1, 2
	sliceBegin, sliceEnd, setCount = 1, 2, 4
)

// New returns a trace that is written to out.
func New(out io.Writer, c Clocks) *Trace {
	t := &Trace{out: bufio.NewWriterSize(out, 64<<10), names: map[string]uint64{}, tracks: map[trackKey]track{}}
	var snapshot message
	snapshot.message(snapshotClock, new(message).number(clockID, clockMonotonic).number(clockTime, uint64(c.Monotonic)))
	snapshot.message(snapshotClock, new(message).number(clockID, clockReal).number(clockTime, uint64(c.Real.UnixNano())))
	snapshot.number(snapshotPrimary, clockMonotonic)
	t.packet(stateCleared, new(message).message(packetClockSnapshot, &snapshot).
		message(packetDefaults, new(message).number(defaultsClock, clockMonotonic)))
	return t
}

// Add writes what a thread did, or an edge of a quota: the CPU time that was left before and after
// the timer gave out more. Sleeping threads are shown by gaps.
func (t *Trace) Add(s *trace.Span) {
	name := report.Printable(s.Name)
	if name == "" {
		name = report.Printable(s.Group)
	}
	container := t.track(trackKey{group: s.Group}, name, 0)
	if s.Quota != nil {
		counter := t.track(trackKey{group: s.Group, quota: true}, "quota left at edges, "+name, container)
		t.count(counter, max(0, s.To-1), int64(s.Quota.Before/time.Microsecond))
		t.count(counter, s.To, int64(s.Quota.Left/time.Microsecond))
		return
	}
	key := trackKey{group: s.Group, thread: s.Thread}
	if s.State == blame.Dead {
		delete(t.tracks, key)
	}
	if s.State == blame.Sleeping || s.State == blame.Dead {
		return
	}
	thread := t.track(key, fmt.Sprint(report.Printable(s.Process), " ", s.Thread), container)
	what := s.State.String()
	switch s.State {
	case blame.Running:
		what = fmt.Sprint("running on CPU ", s.CPU)
		t.slice(t.track(trackKey{cpu: s.CPU + 1}, fmt.Sprint("CPU ", s.CPU), 0), name, s.From, s.To)
	case blame.Waiting:
		what = "waiting behind " + report.Printable(s.Behind)
	}
	t.slice(thread, what, s.From, s.To)
}

// track returns the track for a key, which is shown below its parent, if that is not 0. The first
// call for a key adds the track.
func (t *Trace) track(key trackKey, name string, parent track) track {
	if id, known := t.tracks[key]; known {
		return id
	}
	t.newest++
	id := t.newest
	t.tracks[key] = id
	m := new(message).number(trackID, uint64(id)).text(trackName, name)
	if parent != 0 {
		m.number(trackParent, uint64(parent))
	}
	if key.quota {
		m.message(trackCounter, new(message).text(counterUnitName, "us"))
	}
	t.packet(needsState, new(message).message(packetTrack, m))
	return id
}

// slice writes that something went on for a time. The slices of a track must not overlap.
func (t *Trace) slice(on track, name string, from, to time.Duration) {
	id, known := t.names[name]
	p := new(message)
	if !known {
		if len(t.names) == maxNames {
			clear(t.names)
		}
		t.newestName++
		id = t.newestName
		t.names[name] = id
		p.message(packetInterned, new(message).message(internedEventNames, new(message).number(internedID, id).text(interned, name)))
	}
	t.event(p, from, new(message).number(eventType, sliceBegin).number(eventName, id).number(eventTrack, uint64(on)))
	t.event(new(message), to, new(message).number(eventType, sliceEnd).number(eventTrack, uint64(on)))
}

// count writes the value of a counter from a time on.
func (t *Trace) count(on track, at time.Duration, value int64) {
	t.event(new(message), at, new(message).number(eventType, setCount).number(eventTrack, uint64(on)).number(eventCounter, uint64(value)))
}

func (t *Trace) event(p *message, at time.Duration, event *message) {
	t.packet(needsState, p.number(packetTimestamp, uint64(at)).message(packetTrackEvent, event))
}

func (t *Trace) packet(flags uint64, p *message) {
	p.number(packetSequence, 1).number(packetSequenceFlags, flags)
	if t.err == nil {
		_, t.err = t.out.Write(new(message).message(tracePacket, p).b)
	}
}

// Close writes what is buffered.
func (t *Trace) Close() error {
	if t.err == nil {
		t.err = t.out.Flush()
	}
	if t.err != nil {
		return fmt.Errorf("write the trace: %w", t.err)
	}
	return nil
}

// message is a message of Protocol Buffers.
type message struct{ b []byte }

func (m *message) number(field protowire.Number, value uint64) *message {
	m.b = protowire.AppendVarint(protowire.AppendTag(m.b, field, protowire.VarintType), value)
	return m
}

func (m *message) text(field protowire.Number, value string) *message {
	m.b = protowire.AppendString(protowire.AppendTag(m.b, field, protowire.BytesType), value)
	return m
}

func (m *message) message(field protowire.Number, inner *message) *message {
	m.b = protowire.AppendBytes(protowire.AppendTag(m.b, field, protowire.BytesType), inner.b)
	return m
}
