package colocation

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Write writes a result as lines of JSON: first the experiment, then one line per window.
func (r Result) Write(w io.Writer) error {
	lines := json.NewEncoder(w)
	if err := lines.Encode(r); err != nil {
		return fmt.Errorf("write the experiment: %w", err)
	}
	for _, window := range r.Windows {
		if err := lines.Encode(window); err != nil {
			return fmt.Errorf("write a window: %w", err)
		}
	}
	return nil
}

// Read reads what Write has written.
func Read(from io.Reader) (r Result, err error) {
	lines := json.NewDecoder(from)
	lines.DisallowUnknownFields()
	if err := lines.Decode(&r); err != nil {
		return r, fmt.Errorf("the first line is no experiment: %w", err)
	}
	if err := r.Config.Check(); err != nil {
		return r, fmt.Errorf("the first line is no experiment: %w", err)
	}
	for {
		var w Window
		switch err := lines.Decode(&w); {
		case errors.Is(err, io.EOF):
			return r, nil
		case err != nil:
			return r, fmt.Errorf("line %d is no window: %w", len(r.Windows)+2, err)
		}
		r.Windows = append(r.Windows, w)
	}
}
