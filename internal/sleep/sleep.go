// Package sleep waits for a duration or until a context ends:
//
//	if !sleep.For(ctx, time.Second) {
//		return context.Cause(ctx)
//	}
//
// [Until] asks again and again until nothing is missing. An [Alarm] waits precisely until a time.
package sleep

import (
	"context"
	"fmt"
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

// Until calls missing, with pauses, until it returns "" or an error, or ctx ends. missing returns what
// it waits for.
func Until(ctx context.Context, pause time.Duration, missing func() (string, error)) error {
	for {
		what, err := missing()
		if err != nil || what == "" {
			return err
		}
		if !For(ctx, pause) {
			return fmt.Errorf("%s: %w", what, context.Cause(ctx))
		}
	}
}
