package logdedup

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"testing"
	"time"
)

func TestLogDedup(t *testing.T) {
	now := time.Unix(0, 0)
	s := New(nil, func() time.Time { return now })
	for _, step := range []struct {
		after       time.Duration
		about, text string
		want        bool
	}{
		{0, "a", "x", true},
		{time.Second, "a", "x", false},
		{time.Second, "a", "y", true},
		{time.Second, "b", "y", true},
		{repeatAfter, "a", "y", true},
	} {
		now = now.Add(step.after)
		if got := s.Fresh(step.about, step.text); got != step.want {
			t.Errorf("after %v, %q about %q: fresh is %v", step.after, step.text, step.about, got)
		}
	}
	s.Clear("a")
	if !s.Fresh("a", "y") {
		t.Error("a cleared message is not logged again")
	}
	for i := range 3 * maxLogged {
		now = now.Add(time.Second)
		s.Fresh(fmt.Sprint("group ", i), "gone")
	}
	if len(s.last) > 2*maxLogged {
		t.Errorf("%d messages are remembered", len(s.last))
	}
}

// TestStanding: a warning stands until it is cleared, or is not repeated any more.
func TestStanding(t *testing.T) {
	now := time.Unix(0, 0)
	d := New(slog.New(slog.DiscardHandler), func() time.Time { return now })
	expect := func(want map[string]string) {
		t.Helper()
		if got := d.Standing(); !maps.Equal(got, want) {
			t.Errorf("after %v %q stand, want %q", now.Sub(time.Unix(0, 0)), got, want)
		}
	}
	d.Info("c", "no warning")
	d.WarnOrClear("a", "cannot write", errors.New("disk full"))
	d.Warn("b", "cannot watch", errors.New("refused"))
	both := map[string]string{"a": "cannot write: disk full", "b": "cannot watch: refused"}
	expect(both)
	now = now.Add(fadesAfter)
	d.Warn("b", "cannot watch", errors.New("refused"))
	now = now.Add(fadesAfter)
	expect(both)
	now = now.Add(time.Second)
	expect(map[string]string{"a": "cannot write: disk full"})
	d.WarnOrClear("a", "cannot write", nil)
	expect(map[string]string{})
}
