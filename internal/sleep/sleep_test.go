package sleep

import (
	"context"
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
