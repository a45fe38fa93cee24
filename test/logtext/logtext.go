// Package logtext collects the log of a program under test, so that the test can read it while the
// program writes.
package logtext

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
)

// Log is a log that can be read while it is written. The zero value is an empty log.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write appends to the log.
func (l *Log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// String returns everything that was written so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Says returns an error if the log does not contain a text.
func (l *Log) Says(text string) error {
	if !strings.Contains(l.String(), text) {
		return fmt.Errorf("the log does not contain %q", text)
	}
	return nil
}
