package sleep

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		if !For(t.Context(), time.Minute) || time.Since(begun) != time.Minute {
			t.Errorf("slept for %v, want a minute", time.Since(begun))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun = time.Now()
		if For(ctx, time.Minute) || time.Since(begun) != time.Second {
			t.Errorf("slept for %v, want until the context ended after a second", time.Since(begun))
		}
	})
}

func TestUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		missing := func() (string, error) {
			asked++
			return []string{"one", "two", ""}[asked-1], nil
		}
		if err := Until(t.Context(), time.Minute, missing); err != nil || asked != 3 {
			t.Errorf("error %v after %d questions, want none after three", err, asked)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
		defer cancel()
		asked = 0
		if err := Until(ctx, time.Minute, missing); !errors.Is(err, context.DeadlineExceeded) || !strings.HasPrefix(err.Error(), "two: ") {
			t.Errorf("error %v, want that two is missing", err)
		}
	})
}
