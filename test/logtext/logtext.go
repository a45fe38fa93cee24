// Package logtext collects the log of a program under test, so that the test can read it while the
// program writes.
package logtext

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
)

// Log is a log that can be read while it is written. The zero value is empty.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write adds to the log.
func (l *Log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// String returns all that was written so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Says returns an error when a text was not written so far.
func (l *Log) Says(text string) error {
	if !strings.Contains(l.String(), text) {
		return fmt.Errorf("the log does not say %q", text)
	}
	return nil
}
