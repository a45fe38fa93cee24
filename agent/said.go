package agent

import (
	"log/slog"
	"sync"
	"time"
)

// sayAgain is after how long the same is said once more.
const sayAgain = 10 * time.Minute

// said keeps the log short: what stays as it is is said once, and then rarely.
type said struct {
	now  func() time.Time
	mu   sync.Mutex
	last map[string]saying
}

type saying struct {
	text string
	at   time.Time
}

func newSaid(now func() time.Time) *said { return &said{now: now, last: map[string]saying{}} }

// fresh reports whether a text about something is to be said.
func (s *said) fresh(about, text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if was, ok := s.last[about]; ok && was.text == text && now.Sub(was.at) < sayAgain {
		return false
	}
	s.last[about] = saying{text, now}
	s.prune(now)
	return true
}

// mostSaid bounds what is kept: much is about groups that are long gone.
const mostSaid = 1000

func (s *said) prune(now time.Time) {
	if len(s.last) <= mostSaid {
		return
	}
	for about, was := range s.last {
		if now.Sub(was.at) >= sayAgain {
			delete(s.last, about)
		}
	}
}

func (s *said) warn(log *slog.Logger, about, message string, err error) {
	if s.fresh(about, err.Error()) {
		log.Warn(message, "error", err)
	}
}

func (s *said) warnOrClear(log *slog.Logger, about, message string, err error) {
	if err == nil {
		s.clear(about)
		return
	}
	s.warn(log, about, message, err)
}

func (s *said) info(log *slog.Logger, about, message string) {
	if s.fresh(about, message) {
		log.Info(message)
	}
}

// clear forgets what was said about something, which is over.
func (s *said) clear(about string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.last, about)
}
