package history

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"
)

// Kind is a kind of object that is recorded.
type Kind string

// The kinds.
const (
	Pod      Kind = "Pod"
	Node     Kind = "Node"
	Topology Kind = "NodeTopology"
)

// Type is a type of event.
type Type string

// The types of a watch, and Gap.
const (
	Added    Type = "ADDED"
	Modified Type = "MODIFIED"
	Deleted  Type = "DELETED"
	// Gap means that changes of a kind between two revisions were missed. The events from the
	// list after the gap are marked as Relisted.
	Gap Type = "GAP"
)

// Event is one change of one object, or a gap.
type Event struct {
	// Revision is the resourceVersion of the change, or of the end of a gap.
	Revision uint64 `json:"revision"`
	Type     Type   `json:"type"`
	Kind     Kind   `json:"kind"`
	// From is the last revision before a gap.
	From uint64 `json:"from,omitempty"`
	// Relisted means that the event was derived from a list after a gap. Such a deletion happened
	// at an unknown time within the gap.
	Relisted bool `json:"relisted,omitempty"`
	// Seen is when the recorder received the event, by its own clock.
	Seen time.Time `json:"seen,omitzero"`
	// Object is the state after the change, or before a deletion.
	Object json.RawMessage `json:"object,omitempty"`
}

// sorted returns the events sorted by revision. Events of one revision keep their order.
func sorted(events []Event) []Event {
	events = slices.Clone(events)
	slices.SortStableFunc(events, func(a, b Event) int { return cmp.Compare(a.Revision, b.Revision) })
	return events
}

// Write writes events as JSON, one per line.
func Write(w io.Writer, events []Event) error {
	buffered := bufio.NewWriter(w)
	encoder := json.NewEncoder(buffered)
	for _, event := range events {
		if err := encoder.Encode(event); err != nil {
			return fmt.Errorf("write history: %w", err)
		}
	}
	if err := buffered.Flush(); err != nil {
		return fmt.Errorf("write history: %w", err)
	}
	return nil
}

// Read reads the output of Write.
func Read(r io.Reader) ([]Event, error) {
	var events []Event
	for decoder := json.NewDecoder(r); ; {
		var event Event
		switch err := decoder.Decode(&event); err {
		case nil:
			events = append(events, event)
		case io.EOF:
			return events, nil
		default:
			return nil, fmt.Errorf("read history: event %d: %w", len(events)+1, err)
		}
	}
}
