package measure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/lab/experiment"
	"pinfold.dev/pinfold/lab/host"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/local/load"
)

// service is a running service.
type service struct {
	experiment.Service
	replicas []*host.Process
	url      string // of the first replica of a server
}

func (s *service) groups() []string {
	groups := make([]string, len(s.replicas))
	for i, p := range s.replicas {
		groups[i] = p.Group
	}
	return groups
}

// services are the programs of a window.
type services struct {
	all    []*service
	shared cpuset.Set // CPUs that belong to no service alone
	cancel context.CancelFunc
}

// start starts the services of a window.
func (l *launcher) start(ctx context.Context, at slot) (*services, error) {
	settings, shared, err := l.settings(at.Services)
	if err != nil {
		return nil, err
	}
	if shared.IsEmpty() { // without a load, this process does next to nothing
		shared = l.cpus
	}
	ctx, cancel := context.WithCancel(ctx)
	started := &services{shared: shared, cancel: cancel}
	for i, s := range at.Services {
		one := &service{Service: s}
		started.all = append(started.all, one)
		if err := l.startReplicas(ctx, one, settings[i], l.seed(at.round)); err != nil {
			return nil, errors.Join(err, started.stop())
		}
	}
	return started, nil
}

// startReplicas starts the replicas of a service, the last first, because each may call the next.
func (l *launcher) startReplicas(ctx context.Context, s *service, settings cgroup.Wanted, seed uint64) error {
	next := ""
	for i := range s.Count() {
		one, err := l.program(s.Service, next, seed+uint64(i)<<16)
		if err != nil {
			return err
		}
		one.Title, one.Wanted = fmt.Sprintf("%s %d", s.Name, i+1), settings
		p, err := l.machine.Start(ctx, one.Program, l.say)
		if err != nil {
			return err
		}
		s.replicas = append([]*host.Process{p}, s.replicas...)
		if p.Address != "" {
			next = "http://" + p.Address + "/"
			s.url = next + one.path
		}
		if !s.Chain {
			next = ""
		}
	}
	return nil
}

// sender returns a sender of requests to a service. nginx compresses its page for each of them.
func (s *service) sender() (*load.HTTP, error) {
	sender, err := load.NewHTTP(s.url)
	if err != nil {
		return nil, err
	}
	if s.Request.Hash > 0 {
		sender.Header = http.Header{"Accept-Encoding": {"gzip"}}
	}
	return sender, nil
}

// wait waits for a window without load: until its time is over, or until a program has finished. It
// adds the work that was done.
func (s *services) wait(ctx context.Context, figures map[experiment.Figure]float64, d time.Duration) error {
	first := s.all[0]
	var over <-chan time.Time
	if first.Program != experiment.Pi {
		over = time.After(d)
	}
	select {
	case <-over:
	case seconds := <-first.replicas[0].Finished:
		figures[experiment.Elapsed] = seconds
	case <-first.replicas[0].Done:
		return cmp.Or(first.replicas[0].Err, host.ErrEnded)
	case <-first.replicas[0].Silent:
		return fmt.Errorf("%s: its output has ended", first.replicas[0].Title)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	work, printed := 0.0, true
	for _, p := range first.replicas {
		amounts := p.Take()
		work, printed = work+mean(amounts), printed && len(amounts) > 0
	}
	if !printed { // too short a window, or all of it throttled
		return nil
	}
	switch first.Program {
	case experiment.Cycles, experiment.Batch:
		figures[experiment.Goodput] = work
	case experiment.Demand:
		figures[experiment.Backlog] = work / float64(len(first.replicas))
	}
	return nil
}

func mean(values []float64) (sum float64) {
	for _, v := range values {
		sum += v / float64(len(values))
	}
	return sum
}

// stop ends all programs and removes their groups. It returns why programs have ended before.
func (s *services) stop() error {
	s.cancel()
	var failed []error
	for _, one := range s.all {
		for _, p := range one.replicas {
			<-p.Done
			failed = append(failed, p.Err)
		}
	}
	return errors.Join(failed...)
}
