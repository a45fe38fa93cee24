package judge

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/lab/host"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/local/load"
)

// timeout of a request, which bounds the requests that wait.
const timeout = 10 * time.Second

// trial is one start of a program, and what it is measured under.
type trial struct {
	*judge
	service service
	load    Program
	beside  Beside
	limits  *bandwidth.Limits // nil for none
	length  time.Duration
	seed    uint64
	// beside the load; may be nil
	during func(ctx context.Context, group string) error
}

// measure makes a trial.
func (t trial) measure(ctx context.Context) (m Measured, err error) {
	before, err := t.look(ctx)
	if err != nil {
		return m, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var running []*host.Process
	defer func() {
		cancel()
		for _, p := range running {
			<-p.Done
			err = errors.Join(err, p.Err)
		}
		err = errors.Join(err, t.clear())
	}()
	one, client, err := t.start(ctx, t.service, t.load.Amount, t.seed)
	if one != nil {
		running = append(running, one)
	}
	if err != nil {
		return m, err
	}
	defer client.close()
	neighbours := ""
	if threads := t.beside.threads(t.cpus); threads > 0 {
		other, err := t.machine.Start(ctx, t.neighbours(threads), t.Progress)
		if err != nil {
			return m, err
		}
		running, neighbours = append(running, other), other.Group
	}
	if err := t.limit(one.Group); err != nil {
		return m, err
	}
	m, err = t.underLoad(ctx, client, one.Group, neighbours)
	m.Before = before
	return m, err
}

// start starts a service, and sends it requests until it is warm. It returns a process that runs also with an
// error.
func (j *judge) start(ctx context.Context, s service, amount int, seed uint64) (one *host.Process, c *client, err error) {
	program, err := s.program(j.found[s.name], j.dir, j.newName())
	if err != nil {
		return nil, nil, err
	}
	if one, err = j.machine.Start(ctx, program, j.Progress); err != nil {
		return nil, nil, err
	}
	if c, err = newClient(s, amount, one.Address, seed); err != nil {
		return one, nil, err
	}
	if err := c.warm(ctx, s.warm); err != nil {
		c.close()
		return one, nil, err
	}
	return one, c, nil
}

// neighbours returns the program that always computes.
func (t trial) neighbours(threads int) host.Program {
	return host.Program{Name: t.newName(), Title: "neighbours", BuiltIn: true, Command: t.Workload("batch", fmt.Sprint("--threads=", threads))}
}

// limit sets the limits.
func (t trial) limit(group string) error {
	l := t.limits
	if l == nil {
		return nil
	}
	return t.machine.Groups.Apply(map[string]cgroup.Wanted{group: {Quota: &l.Quota, Period: &l.Period, Burst: &l.Burst}}).Err()
}

// underLoad sends the load and measures.
func (t trial) underLoad(ctx context.Context, client *client, group, neighbours string) (m Measured, err error) {
	if _, err := load.Run(ctx, t.plan(settleFor, t.seed+1), client.send); err != nil {
		return m, err
	}
	if err := t.machine.Schedule(unix.SCHED_RR, 1, t.all); err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, t.machine.Schedule(unix.SCHED_NORMAL, 0, t.all)) }()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	from, err := t.usage(group, neighbours)
	if err != nil {
		return m, err
	}
	var beside sync.WaitGroup
	var failed error
	if t.during != nil {
		beside.Go(func() {
			if failed = t.during(ctx, group); failed != nil {
				cancel(failed)
			}
		})
	}
	m.Began = time.Now().Round(time.Second)
	work := client.work
	result, err := load.Run(ctx, t.plan(t.length, t.seed), client.send)
	m.Work = client.work - work
	if err != nil {
		cancel(err)
	} else if !sleep.For(ctx, time.Until(from.at.Add(t.length))) {
		err = context.Cause(ctx)
	}
	beside.Wait() // its CPU time is known when it has ended
	to, errUsage := t.usage(group, neighbours)
	if err := errors.Join(err, errUsage, failed); err != nil {
		return m, err
	}
	t.account(&m, from, to, result)
	return m, nil
}

func (t trial) plan(d time.Duration, seed uint64) load.Plan {
	return load.Plan{Batch: 1, Every: t.load.Every, Duration: d, Poisson: true, Seed: seed, Timeout: timeout}
}

// clear removes the files of programs.
func (j *judge) clear() error {
	left, err := filepath.Glob(filepath.Join(j.dir, "*"))
	for _, name := range left {
		err = errors.Join(err, os.RemoveAll(name))
	}
	return err
}

// client sends requests of random sizes.
type client struct {
	senders []*load.HTTP
	mu      sync.Mutex
	random  *rand.Rand
	work    float64 // of what was sent
}

func newClient(s service, amount int, address string, seed uint64) (*client, error) {
	c := &client{random: rand.New(rand.NewPCG(seed, 2))}
	for _, size := range sizes() {
		sender, err := load.NewHTTP("http://" + address + s.path(max(1, int(size*float64(amount)))))
		if err != nil {
			return nil, err
		}
		sender.Header = s.header
		c.senders = append(c.senders, sender)
	}
	return c, nil
}

func (c *client) close() {
	for _, s := range c.senders {
		s.Close()
	}
}

func (c *client) send(ctx context.Context) error {
	c.mu.Lock()
	size := c.random.IntN(len(c.senders))
	c.work += sizes()[size]
	c.mu.Unlock()
	return c.senders[size].Send(ctx)
}

// warm sends one request after the other for a time.
func (c *client) warm(ctx context.Context, d time.Duration) error {
	for end := time.Now().Add(d); time.Now().Before(end); {
		bounded, cancel := context.WithTimeout(ctx, timeout)
		err := c.send(bounded)
		cancel()
		if err != nil {
			return fmt.Errorf("warm the program up: %w", err)
		}
	}
	return nil
}
