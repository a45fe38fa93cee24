package measure

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/experiment"
	"pinfold.dev/pinfold/linux/cgroup"
)

// service is a running service.
type service struct {
	experiment.Service
	replicas []*process
	url      string // of the first replica of a server
}

func (s *service) groups() []string {
	groups := make([]string, len(s.replicas))
	for i, p := range s.replicas {
		groups[i] = p.group
	}
	return groups
}

// services are the programs of a window.
type services struct {
	all    []*service
	shared cpuset.Set    // CPUs that belong to no service alone
	client time.Duration // CPU time of a load generator that is a program of its own
	cancel context.CancelFunc
}

// start starts the services of a window.
func (r *run) start(ctx context.Context, at slot) (*services, error) {
	wanted, err := at.condition.In(r.config.Services)
	if err != nil {
		return nil, err
	}
	settings, shared := make([]cgroup.Wanted, len(wanted)), r.cpus
	if !r.inPods {
		if settings, shared, err = r.settings(wanted); err != nil {
			return nil, err
		}
	}
	if shared.IsEmpty() { // without a load, this process does next to nothing
		shared = r.cpus
	}
	ctx, cancel := context.WithCancel(ctx)
	started := &services{shared: shared, cancel: cancel}
	for i, s := range wanted {
		one := &service{Service: s}
		started.all = append(started.all, one)
		if err := r.startReplicas(ctx, one, settings[i], at.round); err != nil {
			return nil, errors.Join(err, started.stop())
		}
	}
	if r.inPods {
		if err := r.findShared(started); err != nil {
			return nil, errors.Join(err, started.stop())
		}
	}
	return started, nil
}

// startReplicas starts the replicas of a service, the last first, because each may call the next.
func (r *run) startReplicas(ctx context.Context, s *service, settings cgroup.Wanted, round int) error {
	next := ""
	for i := range s.Count() {
		one, path, err := r.program(s.Service, next, r.seed(round)+uint64(i)<<16)
		if err != nil {
			return err
		}
		r.started++
		one.name, one.group = fmt.Sprintf("%s %d", s.Name, i+1), fmt.Sprintf("lab-%d-%d", os.Getpid(), r.started)
		one.wanted = settings
		p, err := r.place.start(ctx, one, r.Progress)
		if err != nil {
			return err
		}
		s.replicas = append([]*process{p}, s.replicas...)
		if p.address != "" {
			next = "http://" + p.address + "/"
			s.url = next + path
		}
		if !s.Chain {
			next = ""
		}
	}
	return nil
}

// stop ends all programs and removes their groups. It returns why programs have ended before.
func (s *services) stop() error {
	s.cancel()
	var failed []error
	for _, one := range s.all {
		for _, p := range one.replicas {
			<-p.done
			failed = append(failed, p.err)
		}
	}
	return errors.Join(failed...)
}
