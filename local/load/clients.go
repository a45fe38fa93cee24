package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// Clients are independent clients that are on and off for random times, with exponential
// distributions (a Markov-modulated process). A client has one request at a time.
type Clients struct {
	Number  int
	On, Off time.Duration // means
	// Pause is the time from an answer to the client's next request, or from one planned request to
	// the next.
	Pause time.Duration
	// Planned clients plan their requests before the run: one each Pause while they are on. They
	// send a request when it is due, or as soon as the one before was answered. Latency is measured
	// from the planned time. Otherwise it is measured from sending, and a slow server gets fewer
	// requests.
	Planned  bool
	Duration time.Duration
	Seed     uint64
	Timeout  time.Duration // of a request
}

// Check implements [Load].
func (c Clients) Check() error {
	var wrong []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			wrong = append(wrong, fmt.Errorf(format, args...))
		}
	}
	refuse(c.Number < 1 || c.Number > maxConcurrent, "%d clients: the number must be from 1 to %d", c.Number, maxConcurrent)
	refuse(c.On <= 0 || c.Off <= 0, "clients that are on for %v and off for %v: both must be more than 0", c.On, c.Off)
	refuse(c.Pause < 0 || c.Planned && c.Pause == 0, "a pause of %v: planned requests need one of more than 0", c.Pause)
	refuse(c.Duration <= 0, "a duration of %v: it must be more than 0", c.Duration)
	refuse(c.Timeout <= 0, "a timeout of %v: it must be more than 0", c.Timeout)
	if wrong == nil && c.Planned {
		share := float64(c.On) / float64(c.On+c.Off)
		planned := float64(c.Number) * share * float64(c.Duration) / float64(c.Pause)
		refuse(planned > maxRequests, "some %.0f requests: more than %d; shorten the duration", planned, maxRequests)
	}
	return errors.Join(wrong...)
}

func (c Clients) length() time.Duration { return c.Duration }

func (c Clients) run(ctx context.Context, begin time.Time, send Send, newAlarm alarms) (outcomes []outcome, lateness time.Duration, err error) {
	all, errs := make([]client, c.Number), make([]error, c.Number)
	var group sync.WaitGroup
	for i := range all {
		all[i] = client{Clients: c, begin: begin, send: send, random: rand.New(rand.NewPCG(c.Seed, uint64(i)))}
		group.Go(func() { errs[i] = all[i].alternate(ctx, newAlarm) })
	}
	group.Wait()
	for i := range all {
		outcomes = append(outcomes, all[i].outcomes...)
		lateness = max(lateness, all[i].lateness)
	}
	return outcomes, lateness, errors.Join(errs...)
}

// client is one client.
type client struct {
	Clients
	begin    time.Time
	send     Send
	random   *rand.Rand
	outcomes []outcome
	lateness time.Duration
}

// alternate is on and off in turn. At the beginning a client is on with the probability that it
// is on at any time.
func (c *client) alternate(ctx context.Context, newAlarm alarms) error {
	alarm, err := newAlarm(ctx)
	if err != nil {
		return err
	}
	defer alarm.Close()
	at := time.Duration(0)
	if c.random.Float64()*float64(c.On+c.Off) >= float64(c.On) {
		at = c.exponential(c.Off)
	}
	for at < c.Duration {
		end := min(at+c.exponential(c.On), c.Duration)
		if c.Planned {
			c.sendPlanned(ctx, alarm, at, end)
		} else {
			end = max(end, c.sendInTurn(ctx, alarm, at, end))
		}
		if ctx.Err() != nil {
			break
		}
		at = end + c.exponential(c.Off)
	}
	return ctx.Err()
}

// sendPlanned sends the requests that are planned from one time to another.
func (c *client) sendPlanned(ctx context.Context, alarm alarm, from, to time.Duration) {
	for due := from; due < to; due += c.Pause {
		free := time.Since(c.begin)
		if alarm.Wait(c.begin.Add(due)) != nil {
			return
		}
		if free < due {
			c.lateness = max(c.lateness, time.Since(c.begin)-due)
		}
		c.add(ctx, due)
	}
}

// sendInTurn sends requests until a time, each after the answer to the one before. It returns the
// time of the last answer.
func (c *client) sendInTurn(ctx context.Context, alarm alarm, from, to time.Duration) time.Duration {
	for next := from; next < to; next = time.Since(c.begin) + c.Pause {
		if alarm.Wait(c.begin.Add(next)) != nil {
			break
		}
		now := time.Since(c.begin)
		c.lateness = max(c.lateness, now-next)
		c.add(ctx, now)
	}
	return time.Since(c.begin)
}

func (c *client) add(ctx context.Context, due time.Duration) {
	c.outcomes = append(c.outcomes, sendOne(ctx, c.begin, due, c.Timeout, c.send))
}

func (c *client) exponential(mean time.Duration) time.Duration {
	return time.Duration(c.random.ExpFloat64() * float64(mean))
}
