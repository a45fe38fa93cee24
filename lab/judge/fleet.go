package judge

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/lab/host"
	"pinfold.dev/pinfold/lab/programs"
	"pinfold.dev/pinfold/linux/sampler"
	"pinfold.dev/pinfold/local/load"
	"pinfold.dev/pinfold/tracefile"
)

// FleetUse is about how many CPUs each program of a fleet uses on average.
const FleetUse = .16

// nginxPage is the size of the page that nginx compresses in a fleet, in bytes, and nginxCost about the
// CPU time that this takes.
const nginxPage, nginxCost = 1 << 20, 4 * time.Millisecond

// mostAtOnce is how many requests a server gets at the same time at most.
const mostAtOnce = 64

// patterns are how requests come. All but "minutely" send as many on average, one every so often.
func patterns() []pattern {
	return []pattern{
		{"random", func(p load.Plan, _ *rand.Rand) load.Load { p.Poisson = true; return p }},
		{"regular", func(p load.Plan, _ *rand.Rand) load.Load { p.Jitter = p.Every / 2; return p }},
		{"batches", func(p load.Plan, _ *rand.Rand) load.Load {
			p.Batch, p.Every, p.Poisson = 8, 8*p.Every, true
			return p
		}},
		{"minutely", func(p load.Plan, _ *rand.Rand) load.Load { // as cron jobs
			p.Batch = max(1, min(mostAtOnce, int(time.Minute/p.Every)))
			p.Every = time.Minute
			return p
		}},
		{"clients", func(p load.Plan, _ *rand.Rand) load.Load { // on for 2 of 10 seconds
			const number, part = 5, 5
			return load.Clients{Number: number, On: 2 * time.Second, Off: 2 * (part - 1) * time.Second, Pause: p.Every * number / part,
				Planned: true, Duration: p.Duration, Seed: p.Seed, Timeout: p.Timeout}
		}},
		{"waves", nil},
	}
}

// pattern is a way in which requests come.
type pattern struct {
	name string
	// of makes the load from a plan with the average rate; nil: a new rate in each half minute.
	of func(load.Plan, *rand.Rand) load.Load
}

// wave is the time for which the rate of waves stays the same.
const wave = 30 * time.Second

// send sends requests as the pattern wants.
func (w pattern) send(ctx context.Context, p load.Plan, send load.Send) error {
	random := rand.New(rand.NewPCG(p.Seed, 3))
	if w.of != nil {
		_, err := load.Run(ctx, w.of(p, random), send)
		return err
	}
	p.Poisson = true
	for left, every := p.Duration, p.Every; left > 0; left -= wave {
		const sigma = .8 // of the logarithm of the rate, whose mean stays the same
		p.Duration, p.Seed = min(left, wave), p.Seed+1
		p.Every = time.Duration(float64(every) * math.Exp(sigma*random.NormFloat64()+sigma*sigma/2))
		if _, err := load.Run(ctx, p, send); err != nil {
			return err
		}
	}
	return nil
}

// nginx is a service for fleets.
func nginx() service {
	return service{name: "nginx", warm: warmFor, needs: []string{"nginx"}, cost: nginxCost, unit: nginxCost, header: http.Header{"Accept-Encoding": {"gzip"}},
		path: func(int) string { return "/" },
		prepare: func(found map[string]programs.Program, dir, address string) ([]string, error) {
			args, err := found["nginx"].Nginx(programs.Site{Dir: dir, Address: address, Workers: 2, Bytes: nginxPage, Compress: true})
			return found["nginx"].Command(args...), err
		}}
}

// Fleet records programs of several kinds, each under several loads and without a limit, as many at the
// same time as there are kinds, and writes a recording of all, whose groups are called /PROGRAM/LOAD.
// seed is that of the requests. It uses Workload, Command, Version and Progress of the options.
func Fleet(ctx context.Context, o Options, output tracefile.Output, length time.Duration, seed uint64) (err error) {
	unlock, err := host.Lock()
	if err != nil {
		return err
	}
	defer unlock()
	j := &judge{Options: o, services: append(services(o.Workload), nginx()), found: map[string]map[string]programs.Program{}}
	if err := j.openMachine(); err != nil {
		return err
	}
	for _, s := range j.services {
		found, _, missing, err := s.find()
		if err != nil || missing != "" {
			return errors.Join(err, errors.New(missing))
		}
		j.found[s.name] = found
	}
	defer func() { err = errors.Join(err, os.RemoveAll(j.dir)) }()
	if err := j.makeDir(); err != nil {
		return err
	}
	file, err := tracefile.Record(output, tracefile.Header{Start: time.Now(), Interval: period})
	if err != nil {
		return err
	}
	all := patterns()
	for turn := range all {
		var rows []fleetRow
		for i, s := range j.services {
			rows = append(rows, fleetRow{service: s, pattern: all[(i+turn)%len(all)], seed: 1000*seed + uint64(10*turn+i)})
		}
		o.Progress(fmt.Sprintf("%d of %d: %d programs for %v", turn+1, len(all), len(rows), length))
		if err = j.together(ctx, rows, length, file); err != nil {
			break
		}
	}
	_, finished := file.Finish()
	return errors.Join(err, finished)
}

// fleetRow is a program under a load.
type fleetRow struct {
	service service
	pattern pattern
	seed    uint64
}

func (r fleetRow) name() string { return "/" + r.service.name + "/" + r.pattern.name }

// together records some programs at the same time.
func (j *judge) together(ctx context.Context, rows []fleetRow, length time.Duration, file tracefile.Recorder) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	var running []*host.Process
	defer func() {
		cancel(nil)
		for _, p := range running {
			<-p.Done
			err = errors.Join(err, p.Err)
		}
		err = errors.Join(err, j.clear())
	}()
	names, clients := map[string]string{}, make([]*client, len(rows)) // names by group
	for i, r := range rows {
		one, client, err := j.start(ctx, r.service, int(r.service.cost/r.service.unit), r.seed)
		if one != nil {
			running = append(running, one)
		}
		if err != nil {
			return err
		}
		defer client.close()
		names[one.Group], clients[i] = r.name(), client
	}
	if err := j.machine.Schedule(unix.SCHED_RR, 1, j.all); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.machine.Schedule(unix.SCHED_NORMAL, 0, j.all)) }()
	var group sync.WaitGroup
	for i, r := range rows {
		group.Go(func() {
			plan := load.Plan{Batch: 1, Every: time.Duration(float64(r.service.cost) / FleetUse), Duration: length, Seed: r.seed, Timeout: time.Minute}
			if err := r.pattern.send(ctx, plan, clients[i].send); err != nil {
				cancel(fmt.Errorf("%s: %w", strings.TrimPrefix(r.name(), "/"), err))
			}
		})
	}
	defer group.Wait()
	sampled, stop := context.WithTimeout(ctx, length)
	defer stop()
	if err := j.sample(sampled, names, file); err != nil || ctx.Err() != nil {
		cancel(err)
		return errors.Join(err, context.Cause(ctx))
	}
	return nil
}

// sample records groups, whose names are given, until ctx ends.
func (j *judge) sample(ctx context.Context, names map[string]string, file tracefile.Recorder) error {
	s, err := sampler.New(j.machine.Groups, sampler.Options{Interval: period})
	if err != nil {
		return err
	}
	var groups []string
	for group := range names {
		groups = append(groups, group)
	}
	s.Set(groups)
	return s.Run(ctx, func(t *sampler.Tick) error {
		for _, one := range t.Samples {
			sample := trace.Sample{At: one.At, Interval: one.Interval, Usage: one.Usage, Limits: one.Limits}
			if err := file.Append(&tracefile.Row{Group: names[one.Group], Sample: sample}); err != nil {
				return err
			}
		}
		return nil
	})
}
