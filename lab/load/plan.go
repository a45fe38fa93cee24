package load

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// The bounds of a plan: what is kept of it, and what the machine has to hold at a time.
const (
	MaxRequests = 5_000_000
	MaxUnderWay = 20_000
)

// Plan says when requests are sent: so many at once, again and again.
type Plan struct {
	Batch    int           // requests sent at once
	Every    time.Duration // from one batch to the next
	Duration time.Duration // the last batch is due before that
	// Jitter delays each batch by 0 to that much, evenly distributed; below Every, so
	// that batches keep their order.
	Jitter time.Duration
	Seed   uint64 // of the jitter
	// Timeout is how long a request may take, from the moment at which it is due.
	Timeout time.Duration
}

// Check says what is wrong with a plan.
func (p Plan) Check() error {
	var wrong []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			wrong = append(wrong, fmt.Errorf(format, args...))
		}
	}
	refuse(p.Batch < 1, "a batch of %d requests: it must be 1 or more", p.Batch)
	refuse(p.Every <= 0, "batches every %v: it must be more than 0", p.Every)
	refuse(p.Duration <= 0, "a duration of %v: it must be more than 0", p.Duration)
	refuse(p.Jitter < 0 || p.Every > 0 && p.Jitter >= p.Every, "a jitter of %v: it must be 0 or more, and less than the %v between batches", p.Jitter, p.Every)
	refuse(p.Timeout <= 0, "a timeout of %v: it must be more than 0", p.Timeout)
	if wrong == nil {
		refuse(p.batches() > MaxRequests/p.Batch, "%d batches of %d requests: more than %d requests in all; shorten the duration", p.batches(), p.Batch, MaxRequests)
		refuse(min(int(p.Timeout/p.Every)+1, p.batches()) > MaxUnderWay/p.Batch, "%d requests every %v, each for up to %v: more than %d under way; shorten the timeout",
			p.Batch, p.Every, p.Timeout, MaxUnderWay)
	}
	return errors.Join(wrong...)
}

// batches is how many there are.
func (p Plan) batches() int { return int((p.Duration-1)/p.Every) + 1 }

// Due returns when each batch is due, counted from the beginning. The same plan gives
// the same times.
func (p Plan) Due() []time.Duration {
	random := rand.New(rand.NewPCG(p.Seed, 0))
	due := make([]time.Duration, p.batches())
	for i := range due {
		due[i] = time.Duration(i) * p.Every
		if p.Jitter > 0 {
			due[i] += time.Duration(random.Int64N(int64(p.Jitter) + 1))
		}
	}
	return due
}
