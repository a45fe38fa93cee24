// Package perfetto writes what threads did as a trace for Perfetto's viewer and trace processor
// (https://ui.perfetto.dev, https://perfetto.dev/docs/reference/trace-packet-proto):
//
//	w := perfetto.New(out, clocks)
//	t := perfetto.Trace{Writer: w}
//	t.Add(span)
//	err := t.Close()
package perfetto

import (
	"bufio"
	"fmt"
	"io"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// Clocks are the clocks of a machine, read at about the same time.
type Clocks struct {
	Monotonic time.Duration // of all events
	Real      time.Time
}

// Track identifies a line in the viewer. The zero value means no track.
type Track uint64

// Writer writes a trace packet by packet, so a trace that was cut off is readable up to there.
// After an error it writes nothing; Close returns the error.
type Writer struct {
	out    *bufio.Writer
	err    error
	tracks Track // so far
	names  map[string]uint64
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

// New returns a writer to out.
func New(out io.Writer, c Clocks) *Writer {
	w := &Writer{out: bufio.NewWriterSize(out, 64<<10), names: map[string]uint64{}}
	var snapshot message
	snapshot.message(snapshotClock, new(message).number(clockID, clockMonotonic).number(clockTime, uint64(c.Monotonic)))
	snapshot.message(snapshotClock, new(message).number(clockID, clockReal).number(clockTime, uint64(c.Real.UnixNano())))
	snapshot.number(snapshotPrimary, clockMonotonic)
	w.packet(stateCleared, new(message).message(packetClockSnapshot, &snapshot).
		message(packetDefaults, new(message).number(defaultsClock, clockMonotonic)))
	return w
}

// Track adds a track for slices. It is shown below its parent, if that is not 0.
func (w *Writer) Track(name string, parent Track) Track { return w.track(name, parent, nil) }

// Counter adds a track for a count.
func (w *Writer) Counter(name, unit string, parent Track) Track {
	return w.track(name, parent, new(message).text(counterUnitName, unit))
}

func (w *Writer) track(name string, parent Track, counter *message) Track {
	w.tracks++
	m := new(message).number(trackID, uint64(w.tracks)).text(trackName, name)
	if parent != 0 {
		m.number(trackParent, uint64(parent))
	}
	if counter != nil {
		m.message(trackCounter, counter)
	}
	w.packet(needsState, new(message).message(packetTrack, m))
	return w.tracks
}

// Slice writes that something went on for a time. The slices of a track must not overlap.
func (w *Writer) Slice(t Track, name string, from, to time.Duration) {
	id, known := w.names[name]
	p := new(message)
	if !known {
		id = uint64(len(w.names)) + 1
		w.names[name] = id
		p.message(packetInterned, new(message).message(internedEventNames, new(message).number(internedID, id).text(interned, name)))
	}
	w.event(p, from, new(message).number(eventType, sliceBegin).number(eventName, id).number(eventTrack, uint64(t)))
	w.event(new(message), to, new(message).number(eventType, sliceEnd).number(eventTrack, uint64(t)))
}

// Count writes the value of a counter from a time on.
func (w *Writer) Count(t Track, at time.Duration, value int64) {
	w.event(new(message), at, new(message).number(eventType, setCount).number(eventTrack, uint64(t)).number(eventCounter, uint64(value)))
}

func (w *Writer) event(p *message, at time.Duration, event *message) {
	w.packet(needsState, p.number(packetTimestamp, uint64(at)).message(packetTrackEvent, event))
}

func (w *Writer) packet(flags uint64, p *message) {
	p.number(packetSequence, 1).number(packetSequenceFlags, flags)
	if w.err == nil {
		_, w.err = w.out.Write(new(message).message(tracePacket, p).b)
	}
}

// Close writes what is buffered.
func (w *Writer) Close() error {
	if w.err == nil {
		w.err = w.out.Flush()
	}
	if w.err != nil {
		return fmt.Errorf("write the trace: %w", w.err)
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
