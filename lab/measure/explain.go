package measure

import (
	"context"
	"errors"
	"fmt"
	"time"

	"pinfold.dev/pinfold/lab/experiment"
	"pinfold.dev/pinfold/linux/schedtrace"
)

// explainFor is the longest traced window.
const explainFor = 5 * time.Second

// explainAll traces the scheduler once for each condition and load, in windows that are not
// compared, because tracing costs time. Without a tracer there is no explanation.
func (r *run) explainAll(ctx context.Context) (all []experiment.Explanation, err error) {
	for _, at := range r.setups {
		e, err := r.explain(ctx, slot{at, 0})
		if errors.Is(err, errors.ErrUnsupported) {
			r.say(fmt.Sprintf("%s: where the time went is not known: %v", r.config.Name, err))
			return nil, nil
		}
		if cause := context.Cause(ctx); err != nil && cause != nil {
			return all, cause
		}
		if err != nil {
			return all, fmt.Errorf("trace condition %q: %w", at.Condition, err)
		}
		all = append(all, e)
	}
	return all, nil
}

func (r *run) explain(ctx context.Context, at slot) (e experiment.Explanation, err error) {
	e = experiment.Explanation{Condition: at.Condition, Window: min(r.length, explainFor)}
	if at.Load != nil {
		e.Load = at.Load.Name
	}
	err = r.during(ctx, at, func(running *services) error {
		seen, err := r.observe(ctx, at, running, e.Window)
		if err != nil {
			return err
		}
		for _, group := range running.all[0].groups() {
			if sum := seen.Groups[seen.Subjects[group]]; sum != nil {
				e.Add(&sum.Parts)
			}
		}
		return nil
	})
	return e, err
}

// observe traces the first service under load.
func (r *run) observe(ctx context.Context, at slot, running *services, d time.Duration) (*schedtrace.Observation, error) {
	started, sent := make(chan struct{}), make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-started:
		case <-ctx.Done():
		}
		_, err := r.generator.send(ctx, at, running, d, 0)
		sent <- err
	}()
	seen, err := schedtrace.Observe(ctx, r.machine.Groups, schedtrace.Request{Groups: running.all[0].groups(), Duration: d, Started: func() { close(started) }}, schedtrace.Options{})
	cancel()
	if sent := <-sent; err == nil && !isEnd(sent) {
		err = sent
	}
	return seen, err
}
