package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"pinfold.dev/pinfold/core/advice"
	"pinfold.dev/pinfold/core/trace"
	show "pinfold.dev/pinfold/report/advice"
)

// consult returns the advice for all groups. When it is interrupted, what is done so far is
// returned with the error.
func (q *consultation) consult(ctx context.Context, stderr io.Writer) (*show.Report, error) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	found := &show.Report{Goal: q.goal}
	groups, err := q.survey(ctx, stderr)
	if err == nil {
		err = q.checkPeriod(groups)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return found, errors.New("interrupted, and nothing is printed")
	case err != nil:
		return found, err
	}
	line, begin := newProgressLine(stderr), time.Now()
	defer line.end()
	err = eachSeries(ctx, groups, *q.interval, samplesAtOnce, func(file string, interval time.Duration, s *trace.Series) error {
		at := time.Since(begin)
		line.draw(at, func() string {
			n := len(found.Containers)
			return fmt.Sprintf("%s  %v  group %d of %d  (ctrl-C ends)", bar(float64(n)/float64(len(groups))), at.Round(100*time.Millisecond), n+1, len(groups))
		})
		c, err := q.advise(ctx, file, interval, s)
		if err == nil {
			found.Containers = append(found.Containers, c)
		}
		return err
	})
	if err != nil && ctx.Err() != nil {
		n := len(found.Containers)
		return found, fmt.Errorf("interrupted: %d of %d groups are done%s", n, len(groups), andPrinted(n))
	}
	return found, err
}

// advise returns the advice for one group.
func (q *consultation) advise(ctx context.Context, file string, interval time.Duration, s *trace.Series) (show.Container, error) {
	options := advice.Options{Random: (&effort{seed: q.seed}).random, Workers: runtime.GOMAXPROCS(0)}
	q.setPeriod(s)
	c, err := advice.ForContainer(ctx, s, interval, q.goal, options)
	if err != nil {
		return show.Container{}, fmt.Errorf("%s: %s: %w", file, s.Group, err)
	}
	out := show.Container{File: file, Container: c}
	if q.node == 0 {
		return out, nil
	}
	limit := show.DecidedLimit(&c)
	if limit == 0 {
		out.Node = &advice.Node{Finding: c.LimitWithBurst.Finding, CPUs: q.nodeCPUs(), BurstPercent: 100 * q.goal.Burst}
		return out, nil
	}
	node, err := advice.ForNode(ctx, s, interval, q.nodeCPUs(), limit, q.goal, options)
	if err != nil {
		return show.Container{}, fmt.Errorf("%s: %s: %w", file, s.Group, err)
	}
	out.Node = &node
	return out, nil
}

func (q *consultation) nodeCPUs() float64 { return float64(q.node) / 1000 }

// checkPeriod refuses another period than the one that groups were recorded under.
func (q *consultation) checkPeriod(groups []surveyed) error {
	for _, g := range groups {
		if g.limited && q.period != 0 {
			return fmt.Errorf("%s: %s was recorded with a limit, whose period counts: leave out --period, or choose other groups with --group", g.file, g.group)
		}
	}
	return nil
}

// setPeriod gives samples without a limit the period that is asked for.
func (q *consultation) setPeriod(s *trace.Series) {
	if q.period == 0 {
		return
	}
	for i := range s.Samples {
		s.Samples[i].Limits.Period = q.period
	}
}
