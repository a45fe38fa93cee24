package agent

import (
	"log/slog"
	"sync"
	"time"
)

// repeatAfter is after how long an unchanged message is logged once more.
const repeatAfter = 10 * time.Minute

// logDedup suppresses repeats of an unchanged message.
type logDedup struct {
	now  func() time.Time
	mu   sync.Mutex
	last map[string]logged
}

type logged struct {
	text string
	at   time.Time
}

func newLogDedup(now func() time.Time) *logDedup {
	return &logDedup{now: now, last: map[string]logged{}}
}

// fresh reports whether a message about something is to be logged.
func (d *logDedup) fresh(about, text string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	if was, ok := d.last[about]; ok && was.text == text && now.Sub(was.at) < repeatAfter {
		return false
	}
	d.last[about] = logged{text, now}
	d.prune(now)
	return true
}

// maxLogged bounds what is remembered: much is about groups that are long gone.
const maxLogged = 1000

func (d *logDedup) prune(now time.Time) {
	if len(d.last) <= maxLogged {
		return
	}
	for about, was := range d.last {
		if now.Sub(was.at) >= repeatAfter {
			delete(d.last, about)
		}
	}
}

func (d *logDedup) warn(log *slog.Logger, about, message string, err error) {
	if d.fresh(about, err.Error()) {
		log.Warn(message, "error", err)
	}
}

func (d *logDedup) warnOrClear(log *slog.Logger, about, message string, err error) {
	if err == nil {
		d.clear(about)
		return
	}
	d.warn(log, about, message, err)
}

func (d *logDedup) info(log *slog.Logger, about, message string) {
	if d.fresh(about, message) {
		log.Info(message)
	}
}

// clear forgets the last message about something, which is over.
func (d *logDedup) clear(about string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.last, about)
}
