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

	"pinfold.dev/pinfold/test/golden"
)

// TestRuns runs the plans of testdata/runs.txt with a simulated clock.
func TestRuns(t *testing.T) {
	golden.Scenarios(t, "testdata/runs.txt", func(t *testing.T, text string) string {
		got, err := golden.Blocks(text, func(words []string) (out string, err error) {
			if words[0] != "run" {
				return "", fmt.Errorf("unknown command %s", words[0])
			}
			synctest.Test(t, func(t *testing.T) { out = runPlan(t, words[1:]) })
			return out, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return got
	})
}

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
		plan    Plan
		s       = server{begun: time.Now()}
		servers int
		end     time.Duration
		log     bool
		flags   = flag.NewFlagSet("run", flag.ContinueOnError)
	)
	flags.IntVar(&plan.Batch, "batch", 0, "")
	flags.DurationVar(&plan.Every, "every", 0, "")
	flags.DurationVar(&plan.Duration, "duration", 0, "")
	flags.DurationVar(&plan.Jitter, "jitter", 0, "")
	flags.DurationVar(&plan.Timeout, "timeout", 10*time.Second, "")
	flags.IntVar(&servers, "servers", 1, "")
	flags.DurationVar(&s.service, "service", 0, "")
	flags.DurationVar(&s.stop, "stop", 0, "")
	flags.DurationVar(&s.stopFor, "stop-for", 0, "")
	flags.IntVar(&s.failEvery, "fail-every", 0, "")
	flags.DurationVar(&end, "end", time.Hour, "")
	flags.BoolVar(&log, "log", false, "")
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	s.capacity = make(chan struct{}, servers)
	ctx, cancel := context.WithTimeout(t.Context(), end)
	defer cancel()
	r, err := Run(ctx, plan, s.send)
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
	if log {
		if err := r.WriteRequests(&out); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}
