// Package logdedup logs messages about states, suppresses repeats of an unchanged message, and knows
// which warnings stand:
//
//	log := logdedup.New(slog.Default(), time.Now)
//	log.WarnOrClear("disk", "cannot write", err) // in each round
//	for about, text := range log.Standing() { ... }
package logdedup

import (
	"fmt"
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
	// standing are the warnings that hold, by what they are about.
	standing map[string]warning
}

type logged struct {
	text string
	at   time.Time
}

// warning is a warning that stands until a time, or until it is cleared if that is zero.
type warning struct {
	text  string
	until time.Time
}

// fadesAfter is how long a warning of [Log.Warn] stands without being repeated: watches of the API
// server are tried again within a minute, and do not say when they succeed.
const fadesAfter = 2 * time.Minute

// New returns a logger with the given clock.
func New(log *slog.Logger, now func() time.Time) *Log {
	return &Log{log: log, now: now, last: map[string]logged{}, standing: map[string]warning{}}
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

// Warn logs a message about something with an error, unless the last one was the same. The warning
// stands as long as it is repeated.
func (d *Log) Warn(about, message string, err error) {
	d.warn(about, message, err, d.now().Add(fadesAfter))
}

// WarnOrClear logs the message if err is not nil, and otherwise calls Clear. The warning stands until
// then.
func (d *Log) WarnOrClear(about, message string, err error) {
	if err == nil {
		d.Clear(about)
		return
	}
	d.warn(about, message, err, time.Time{})
}

func (d *Log) warn(about, message string, err error, until time.Time) {
	if d.Fresh(about, err.Error()) {
		d.log.Warn(message, "error", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.standing[about] = warning{fmt.Sprintf("%s: %v", message, err), until}
}

// Standing returns the warnings that stand, by what they are about.
func (d *Log) Standing() map[string]string {
	d.mu.Lock()
	defer d.mu.Unlock()
	now, all := d.now(), map[string]string{}
	maps.DeleteFunc(d.standing, func(_ string, w warning) bool { return !w.until.IsZero() && now.After(w.until) })
	for about, w := range d.standing {
		all[about] = w.text
	}
	return all
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
	delete(d.standing, about)
}
