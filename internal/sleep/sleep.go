// Package sleep waits for a duration or until a context ends:
//
//	if !sleep.For(ctx, time.Second) {
//		return context.Cause(ctx)
//	}
package sleep

import (
	"context"
	"time"
)

// For waits for d or until ctx ends, and reports whether it waited for all of d.
func For(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
