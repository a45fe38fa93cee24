package sampler

import (
	"errors"
	"testing"
	"time"
)

// TestWaits reads the delays of two threads, of which one begins later.
func TestWaits(t *testing.T) {
	now := time.Unix(0, 0)
	var threads map[int]time.Duration
	readings := 0
	w := &Waits{groups: map[string]*groupWait{}, now: func() time.Time { return now }, delays: func(string) (map[int]time.Duration, error) {
		readings++
		if threads == nil {
			return nil, errors.New("gone")
		}
		return threads, nil
	}}
	for _, step := range []struct {
		after   time.Duration
		threads map[int]time.Duration
		share   float64 // -1 is unknown
	}{
		{0, map[int]time.Duration{1: time.Hour}, -1},
		{time.Second / 2, map[int]time.Duration{1: 2 * time.Hour}, -1}, // too early to read again
		{time.Second / 2, map[int]time.Duration{1: time.Hour + 250*time.Millisecond}, 0.25},
		{time.Second, map[int]time.Duration{1: time.Hour + 300*time.Millisecond, 2: 750 * time.Millisecond}, 0.5},
		{time.Second, map[int]time.Duration{2: time.Hour}, 2. / 3}, // never more than all the time
		{10 * time.Second, map[int]time.Duration{2: time.Hour}, 0},
		{time.Second, nil, -1},
		{time.Second, map[int]time.Duration{2: time.Hour}, -1},
	} {
		now, threads = now.Add(step.after), step.threads
		share, known := w.Share("/a")
		if !known {
			share = -1
		}
		if share != step.share {
			t.Errorf("at %v: %v, want %v", now.Sub(time.Unix(0, 0)), share, step.share)
		}
	}
	if readings != 7 {
		t.Errorf("%d readings", readings)
	}
}
