// Package logdedup logs messages about states, and suppresses repeats of an unchanged message:
//
//	log := logdedup.New(slog.Default(), time.Now)
//	log.WarnOrClear("disk", "cannot write", err) // in each round
package logdedup

import (
	"log/slog"
	"maps"
	"sync"
	"time"
)

// repeatAfter is the time after which an unchanged message is logged again.
const repeatAfter = 10 * time.Minute

// Log is a logger that suppresses repeats of an unchanged message about the same thing.
type Log struct {
	log  *slog.Logger
	now  func() time.Time
	mu   sync.Mutex
	last map[string]logged // by what the message is about
}

type logged struct {
	text string
	at   time.Time
}

// New returns a logger with the given clock.
func New(log *slog.Logger, now func() time.Time) *Log {
	return &Log{log: log, now: now, last: map[string]logged{}}
}

// maxLogged is the number of messages above which old ones are forgotten: many are about cgroups
// that have ended.
const maxLogged = 1000

// Fresh records a message and reports whether it must be logged.
func (d *Log) Fresh(about, text string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	old := func(l logged) bool { return now.Sub(l.at) >= repeatAfter }
	if last, ok := d.last[about]; ok && last.text == text && !old(last) {
		return false
	}
	d.last[about] = logged{text, now}
	if len(d.last) > maxLogged {
		maps.DeleteFunc(d.last, func(_ string, l logged) bool { return old(l) })
	}
	return true
}

// Warn logs a message about something with an error, unless the last one was the same.
func (d *Log) Warn(about, message string, err error) {
	if d.Fresh(about, err.Error()) {
		d.log.Warn(message, "error", err)
	}
}

// WarnOrClear logs the message if err is not nil, and otherwise calls Clear.
func (d *Log) WarnOrClear(about, message string, err error) {
	if err == nil {
		d.Clear(about)
		return
	}
	d.Warn(about, message, err)
}

// Info logs a message about something, unless the last one was the same.
func (d *Log) Info(about, message string) {
	if d.Fresh(about, message) {
		d.log.Info(message)
	}
}

// Clear forgets the last message, so that it is logged again when it recurs.
func (d *Log) Clear(about string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.last, about)
}
