package measure

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"pinfold.dev/pinfold/core/experiment"
	"pinfold.dev/pinfold/lab/load"
	"pinfold.dev/pinfold/lab/programs"
	"pinfold.dev/pinfold/linux/cgroup"
)

// answers is what a load has measured.
type answers struct {
	load.Result
	wrk *programs.WrkResult // if the load generator was wrk; Result is empty then
}

// runWrk runs wrk for a time, rounded up to seconds, on CPUs that belong to no service alone.
func (r *run) runWrk(ctx context.Context, wrk programs.Program, l *experiment.Load, running *services, d time.Duration) (*programs.WrkResult, error) {
	clients := l.Clients.Count(r.scale)
	args, err := programs.WrkLoad{URL: running.all[0].url, Threads: min(clients, running.shared.Len()), Connections: clients, Duration: d}.Args()
	if err != nil {
		return nil, err
	}
	var output bytes.Buffer
	r.started++
	p, err := r.machine.start(ctx, program{
		name: "wrk", group: fmt.Sprintf("lab-%d-%d", os.Getpid(), r.started), command: wrk.Command(args...), output: &output,
		wanted: cgroup.Wanted{CPUs: &running.shared, Weight: new(r.machine.mostWeight())}, // it stands for clients on other machines
	}, r.Progress)
	if err != nil {
		return nil, err
	}
	<-p.done
	if cause := context.Cause(ctx); cause != nil {
		return nil, cause
	}
	if p.result == nil || p.result.ExitStatus != 0 {
		return nil, p.err
	}
	running.client = p.result.Stat.Usage
	result, err := programs.ParseWrk(&output)
	if err != nil {
		return nil, fmt.Errorf("%w: it printed %q", err, output.String())
	}
	return &result, nil
}

// figures adds what wrk has measured.
func (a answers) figures(w *experiment.Window) error {
	if a.wrk.Requests == 0 {
		return errNoAnswer
	}
	if failed := a.wrk.ConnectErrors + a.wrk.ReadErrors + a.wrk.WriteErrors + a.wrk.Timeouts + a.wrk.BadStatus; failed > 0 {
		w.Disturbed = fmt.Sprintf("%d requests failed", failed)
	}
	w.Figures[experiment.Calls] = a.wrk.PerSecond
	for figure, d := range map[experiment.Figure]time.Duration{
		experiment.Mean: a.wrk.Mean, experiment.P50: a.wrk.P50, experiment.P90: a.wrk.P90, experiment.P99: a.wrk.P99, experiment.Longest: a.wrk.Max,
	} {
		w.Figures[figure] = ms(d)
	}
	return nil
}

var errNoAnswer = errors.New("no request was answered")
