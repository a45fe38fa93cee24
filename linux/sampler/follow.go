package sampler

import (
	"context"
	"time"
)

// Follow calls Set with the result of list, at once and then periodically. It returns nil when ctx
// ends, or the error of list.
func (s *Sampler) Follow(ctx context.Context, every time.Duration, list func() ([]string, error)) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		groups, err := list()
		if err != nil {
			return err
		}
		s.Set(groups)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}
