package main

import (
	"encoding/json"
	"fmt"
	"io"
)

// printJSON prints one value on a line of its own.
func printJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	return nil
}
