package agent

import (
	"log/slog"
	"maps"
	"sync"
	"time"
)

// repeatAfter is the time after which an unchanged message is logged again.
const repeatAfter = 10 * time.Minute

// logDedup is a logger that suppresses repeats of an unchanged message about the same thing.
type logDedup struct {
	log  *slog.Logger
	now  func() time.Time
	mu   sync.Mutex
	last map[string]logged // by what the message is about
}

type logged struct {
	text string
	at   time.Time
}

func newLogDedup(log *slog.Logger, now func() time.Time) *logDedup {
	return &logDedup{log: log, now: now, last: map[string]logged{}}
}

// maxLogged is the number of messages above which old ones are forgotten: many are about cgroups
// that have ended.
const maxLogged = 1000

// fresh records a message and reports whether it must be logged.
func (d *logDedup) fresh(about, text string) bool {
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

func (d *logDedup) warn(about, message string, err error) {
	if d.fresh(about, err.Error()) {
		d.log.Warn(message, "error", err)
	}
}

// warnOrClear logs the message if err is not nil, and otherwise calls clear.
func (d *logDedup) warnOrClear(about, message string, err error) {
	if err == nil {
		d.clear(about)
		return
	}
	d.warn(about, message, err)
}

func (d *logDedup) info(about, message string) {
	if d.fresh(about, message) {
		d.log.Info(message)
	}
}

// clear forgets the last message, so that it is logged again when it recurs.
func (d *logDedup) clear(about string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.last, about)
}
