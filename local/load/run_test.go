package load

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/must"
)

// TestRuns runs the plans and clients of testdata with a simulated clock.
func TestRuns(t *testing.T) {
	run := map[string]func(*testing.T, []string) string{"run": runPlan, "clients": runSomeClients}
	for _, file := range []string{"testdata/runs.txt", "testdata/clients.txt"} {
		golden.Scenarios(t, file, func(t *testing.T, text string) string {
			got := golden.Blocks(t, text, func(words []string) (out string, err error) {
				if run[words[0]] == nil {
					return "", fmt.Errorf("unknown command %s", words[0])
				}
				synctest.Test(t, func(t *testing.T) { out = run[words[0]](t, words[1:]) })
				return out, nil
			})
			return got
		})
	}
}

// simulated is an alarm of the simulated clock.
type simulated struct{ ctx context.Context }

func newSimulated(ctx context.Context) (alarm, error) { return simulated{ctx}, nil }

func (s simulated) Wait(until time.Time) error {
	if left := time.Until(until); left > 0 && !sleep.For(s.ctx, left) {
		return s.ctx.Err()
	}
	return s.ctx.Err()
}

func (simulated) Close() {}

// server answers requests after the service time, as many at once as its capacity allows. From stop
// on, it answers nothing for stopFor.
type server struct {
	capacity      chan struct{}
	service       time.Duration
	stop, stopFor time.Duration
	failEvery     int
	begun         time.Time
	asked         atomic.Int64
}

func (s *server) send(ctx context.Context) error {
	number := s.asked.Add(1)
	select {
	case s.capacity <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.capacity }()
	wait := s.service
	if now := time.Since(s.begun); now >= s.stop && now < s.stop+s.stopFor {
		wait += s.stop + s.stopFor - now
	}
	select {
	case <-time.After(wait):
	case <-ctx.Done():
		return ctx.Err()
	}
	if s.failEvery > 0 && number%int64(s.failEvery) == 0 {
		return errors.New("answered with 500")
	}
	return nil
}

func runPlan(t *testing.T, args []string) string {
	t.Helper()
	var (
		plan  Plan
		log   bool
		flags = flag.NewFlagSet("run", flag.ContinueOnError)
	)
	flags.IntVar(&plan.Batch, "batch", 0, "")
	flags.DurationVar(&plan.Every, "every", 0, "")
	flags.DurationVar(&plan.Duration, "duration", 0, "")
	flags.DurationVar(&plan.Jitter, "jitter", 0, "")
	flags.DurationVar(&plan.Timeout, "timeout", 10*time.Second, "")
	flags.BoolVar(&log, "log", false, "")
	return served(t, flags, args, &log, func() Load { return plan })
}

func runSomeClients(t *testing.T, args []string) string {
	t.Helper()
	c := Clients{Seed: 1, Timeout: 10 * time.Second}
	flags := flag.NewFlagSet("clients", flag.ContinueOnError)
	flags.IntVar(&c.Number, "number", 1, "")
	flags.DurationVar(&c.On, "on", 0, "")
	flags.DurationVar(&c.Off, "off", 0, "")
	flags.DurationVar(&c.Pause, "pause", 0, "")
	flags.DurationVar(&c.Duration, "duration", 0, "")
	flags.BoolVar(&c.Planned, "planned", false, "")
	return served(t, flags, args, new(bool), func() Load { return c })
}

// served parses args, runs a load against the server that they describe, and formats the result.
func served(t *testing.T, flags *flag.FlagSet, args []string, log *bool, load func() Load) string {
	t.Helper()
	var (
		s       = server{begun: time.Now()}
		servers int
		end     time.Duration
	)
	flags.IntVar(&servers, "servers", 1, "")
	flags.DurationVar(&s.service, "service", 0, "")
	flags.DurationVar(&s.stop, "stop", 0, "")
	flags.DurationVar(&s.stopFor, "stop-for", 0, "")
	flags.IntVar(&s.failEvery, "fail-every", 0, "")
	flags.DurationVar(&end, "end", time.Hour, "")
	must.Do(t, flags.Parse(args))
	s.capacity = make(chan struct{}, servers)
	ctx, cancel := context.WithTimeout(t.Context(), end)
	defer cancel()
	r, err := run(ctx, load(), s.send, newSimulated)
	if err != nil && r.Sent == 0 {
		return err.Error() + "\n"
	}
	var out strings.Builder
	fmt.Fprintf(&out, "sent %d, answered %d, cut %d, in %v; late %v\n", r.Sent, len(r.Latencies), r.Cut, r.Took, r.Lateness)
	for _, failure := range slices.Sorted(maps.Keys(r.Failures)) {
		fmt.Fprintf(&out, "failed %d: %s\n", r.Failures[failure], failure)
	}
	fmt.Fprintf(&out, "mean %v, p50 %v, p99 %v, longest %v\n", r.Mean(), r.Quantile(0.5), r.Quantile(0.99), r.Quantile(1))
	if err != nil {
		fmt.Fprintf(&out, "%v\n", err)
	}
	if *log {
		must.Do(t, r.WriteRequests(&out))
	}
	return out.String()
}
