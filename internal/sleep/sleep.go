// Package sleep waits for a duration or until a context ends:
//
//	if !sleep.For(ctx, time.Second) {
//		return context.Cause(ctx)
//	}
//
// An [Alarm] waits precisely until a time.
package sleep

import (
	"context"
	"time"
)

// For waits for d or until ctx ends. It returns false if ctx has ended.
func For(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
