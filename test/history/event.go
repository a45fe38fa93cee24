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
	Pod       Kind = "Pod"
	Node      Kind = "Node"
	Topology  Kind = "NodeResourceTopology"
	Lease     Kind = "Lease"
	Namespace Kind = "Namespace"
)

// Type is what happened to an object.
type Type string

// The types. The first three are those of a watch.
const (
	Added    Type = "ADDED"
	Modified Type = "MODIFIED"
	Deleted  Type = "DELETED"
	// Gap says that changes of this kind between two revisions were missed. The
	// events that a new list gave are marked as Relisted.
	Gap Type = "GAP"
)

// Event is one change of one object, or a gap.
type Event struct {
	// Revision is the resourceVersion that the change made. A gap ends there.
	Revision uint64 `json:"revision"`
	Type     Type   `json:"type"`
	Kind     Kind   `json:"kind"`
	// From is the last revision before a gap.
	From uint64 `json:"from,omitempty"`
	// Relisted events come from a list after a gap. A deletion among them happened
	// somewhere in the gap.
	Relisted bool `json:"relisted,omitempty"`
	// Seen is when the recorder heard of it, by its own clock.
	Seen time.Time `json:"seen,omitzero"`
	// Object is its state after the change, before it for a deletion.
	Object json.RawMessage `json:"object,omitempty"`
}

// sorted returns the events by their revisions. Events of one revision keep their order.
func sorted(events []Event) []Event {
	events = slices.Clone(events)
	slices.SortStableFunc(events, func(a, b Event) int { return cmp.Compare(a.Revision, b.Revision) })
	return events
}

// Write writes events as JSON, one a line.
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

// Read reads what Write has written.
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
