package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// Limits of a plan.
const (
	maxRequests   = 5_000_000 // their latencies are kept in memory
	maxConcurrent = 20_000
)

// Plan determines when requests are sent: in batches at regular intervals, or at random.
type Plan struct {
	Batch    int           // requests sent at once
	Every    time.Duration // from one batch to the next
	Duration time.Duration // all batches are due before it has passed, apart from jitter
	// Jitter is the largest random delay of a batch, uniformly distributed from 0. It must be less
	// than Every, so that batches keep their order.
	Jitter time.Duration
	// Poisson makes the times from one batch to the next random, exponentially distributed with mean
	// Every, as those between requests of many independent users are. There is no Jitter then.
	Poisson bool
	Seed    uint64        // of the random times
	Timeout time.Duration // of a request, from its planned time
}

// Check implements [Load].
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
	refuse(p.Poisson && p.Jitter > 0, "a jitter of %v of batches at random times: leave it out", p.Jitter)
	refuse(p.Timeout <= 0, "a timeout of %v: it must be more than 0", p.Timeout)
	if wrong == nil {
		refuse(p.batches() > maxRequests/p.Batch, "%d batches of %d requests: more than %d requests in all; shorten the duration",
			p.batches(), p.Batch, maxRequests)
		open := int(min(p.Timeout, p.Duration)/p.Every) + 1 // batches at one time
		if p.Jitter > 0 {
			open++
		}
		refuse(min(open, p.batches()) > maxConcurrent/p.Batch,
			"%d requests every %v, each for up to %v: more than %d concurrent requests; shorten the timeout",
			p.Batch, p.Every, p.Timeout, maxConcurrent)
	}
	return errors.Join(wrong...)
}

// batches returns the number of batches, on average if it is random.
func (p Plan) batches() int { return int((p.Duration-1)/p.Every) + 1 }

// due returns the planned time of each batch, from the start of the run. It is deterministic.
func (p Plan) due() []time.Duration {
	random := rand.New(rand.NewPCG(p.Seed, 0))
	if p.Poisson {
		return p.poisson(random)
	}
	due := make([]time.Duration, p.batches())
	for i := range due {
		due[i] = time.Duration(i) * p.Every
		if p.Jitter > 0 {
			due[i] += time.Duration(random.Int64N(int64(p.Jitter) + 1))
		}
	}
	return due
}

// poisson returns random times with exponentially distributed differences.
func (p Plan) poisson(random *rand.Rand) (due []time.Duration) {
	for at := 0.0; ; {
		at += random.ExpFloat64() * float64(p.Every)
		if at >= float64(p.Duration) || len(due)*p.Batch >= maxRequests {
			return due
		}
		due = append(due, time.Duration(at))
	}
}

func (p Plan) length() time.Duration { return p.Duration }

func (p Plan) run(ctx context.Context, begin time.Time, send Send, newAlarm alarms) (outcomes []outcome, lateness time.Duration, err error) {
	alarm, err := newAlarm(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer alarm.Close()
	due, sent := p.due(), 0
	outcomes = make([]outcome, len(due)*p.Batch)
	var group sync.WaitGroup
	for _, at := range due {
		if err = alarm.Wait(begin.Add(at)); err != nil {
			break
		}
		lateness = max(lateness, time.Since(begin)-at)
		for range p.Batch {
			one := &outcomes[sent]
			group.Go(func() { *one = sendOne(ctx, begin, at, p.Timeout, send) })
			sent++
		}
	}
	group.Wait()
	return outcomes[:sent], lateness, err
}
