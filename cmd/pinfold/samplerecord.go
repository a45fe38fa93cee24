//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/sampler"
	"pinfold.dev/pinfold/tracefile"
)

// errDone ends the sampling as it should end.
var errDone = errors.New("done")

// maxBatches is how many ticks may wait to be written: a disk may be slow for that long
// until samples are late.
const maxBatches = 1024

// batch is a tick on its way to the disk.
type batch struct {
	at      time.Duration
	samples []sampler.Sample
	absent  []sampler.Absent
}

// recording is one that goes on. The sampler's goroutine owns until and seen; the other
// one the rest.
type recording struct {
	q        *sampling
	names    map[string]string
	present  map[string]bool
	counts   map[string]int
	cmd      *cobra.Command
	progress *progress
	recorder tracefile.Recorder // nil without output
	memory   *memory
	noBursts bool // the kernel does not count bursts
	cost     sampler.Cost
}

// record samples until it is time to end, and writes the output. What was recorded is
// returned with an error, too.
func (q *sampling) record(cmd *cobra.Command, fs *cgroup.FS, targets []target) (*recording, error) {
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second ctrl-C kills
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := sampler.New(fs, sampler.Options{Interval: q.interval})
	if err != nil {
		return nil, err
	}
	r := &recording{
		q: q, cmd: cmd, names: map[string]string{}, present: map[string]bool{}, counts: map[string]int{},
		progress: newProgress(cmd.ErrOrStderr(), q.duration, int(q.samples)),
		memory:   newMemory(q.interval),
	}
	var groups []string
	for _, t := range targets {
		groups = append(groups, t.group)
		r.names[t.group], r.present[t.group] = t.name, true
	}
	s.Set(groups)
	batches := make(chan batch, maxBatches)
	written := make(chan error, 1)
	go func() {
		err := r.write(batches, s)
		cancel()
		for range batches { // after an error nothing more is taken
		}
		written <- err
	}()
	err = s.Run(ctx, func(t *sampler.Tick) error { return r.take(t, batches) })
	close(batches)
	if errors.Is(err, errDone) {
		err = nil
	}
	err = errors.Join(err, <-written)
	r.progress.end()
	r.cost = s.Cost()
	return r, errors.Join(err, r.finish())
}

// summary prints what the recording says of its groups, and what it took.
func (r *recording) summary(w io.Writer) error {
	rec := r.memory.recording()
	if len(rec.Series) == 0 {
		return nil
	}
	if err := printSummary(w, rec); err != nil {
		return err
	}
	fmt.Fprintln(w)
	c := r.cost
	printLine(w, "sampling", "took %.2g%% of a CPU; woke up %v late, 99 of 100 times at most %v; %d times too late for a sample",
		100*c.Share(), short(c.Jitter50), short(c.Jitter99), c.Missed)
	if r.noBursts {
		printLine(w, "note", "this kernel does not count bursts: Linux does since %s", cgroup.BurstStatisticsSince)
	}
	if note := r.memory.note(); note != "" {
		printLine(w, "note", "%s", note)
	}
	return nil
}

// take hands a tick on, in the sampler's goroutine, and ends the sampling when it is time.
func (r *recording) take(t *sampler.Tick, batches chan<- batch) error {
	b := batch{at: t.At, samples: slices.Clone(t.Samples), absent: slices.Clone(t.Absent)}
	batches <- b
	done := r.q.duration > 0 && t.At >= r.q.duration-r.q.interval/2
	for i := range t.Samples {
		group := t.Samples[i].Group
		r.present[group] = true
		r.counts[group]++
		done = done || r.q.samples > 0 && r.counts[group] >= int(r.q.samples)
	}
	for _, a := range t.Absent {
		delete(r.present, a.Group)
	}
	if done || len(r.present) == 0 {
		return errDone
	}
	return nil
}

// write takes ticks until there are no more, in a goroutine of its own, so that a slow disk
// makes no sample late.
func (r *recording) write(batches <-chan batch, s *sampler.Sampler) error {
	for b := range batches {
		if r.memory.rec.Start.IsZero() {
			if err := r.begin(s.Start()); err != nil {
				return err
			}
		}
		for _, line := range absentLines(b.at, b.absent) {
			r.progress.say(line)
		}
		for i := range b.samples {
			row := &tracefile.Row{Group: b.samples[i].Group, Name: r.names[b.samples[i].Group], Sample: b.samples[i].Sample}
			if r.recorder != nil {
				if err := r.recorder.Append(row); err != nil {
					return fmt.Errorf("the recording stops after %v: %w", b.at.Round(time.Millisecond), err)
				}
			}
			r.memory.add(row)
			r.noBursts = r.noBursts || b.samples[i].NoBursts
		}
		r.progress.show(b.at, r.memory)
	}
	return nil
}

// maxAbsentLines is how many groups that vanish together are named.
const maxAbsentLines = 10

// absentLines says which groups are not sampled any more, and why.
func absentLines(at time.Duration, absent []sampler.Absent) []string {
	at = at.Round(time.Millisecond)
	var lines []string
	for i, a := range absent {
		if i == maxAbsentLines {
			return append(lines, fmt.Sprintf("pinfold: after %v: and %d groups more", at, len(absent)-i))
		}
		lines = append(lines, fmt.Sprintf("pinfold: after %v: %v", at, a.Err))
	}
	return lines
}

// begin begins the output once it is known when the sampling began.
func (r *recording) begin(start time.Time) (err error) {
	r.memory.rec.Start = start
	h := tracefile.Header{Start: start, Interval: r.q.interval}
	switch r.q.output.Name {
	case "":
	case tracefile.Stdout:
		r.recorder, err = tracefile.RecordCSV(r.cmd.OutOrStdout(), h)
	default:
		r.recorder, err = tracefile.Record(r.q.output, h)
	}
	if exists := (*tracefile.JournalExistsError)(nil); errors.As(err, &exists) {
		return fmt.Errorf("%w: make a file of it with 'pinfold trace recover %s -o FILE', and remove it", err, exists.Journal)
	}
	return err
}

// finish closes the output.
func (r *recording) finish() error {
	if r.recorder == nil {
		return nil
	}
	c, err := r.recorder.Finish()
	if kept := (*tracefile.KeptError)(nil); errors.As(err, &kept) {
		return fmt.Errorf("%w: make a file of it where there is room: pinfold trace recover %s -o FILE", err, kept.Journal)
	}
	if r.q.output.Name != tracefile.Stdout && c.Rows > 0 {
		printWritten(r.cmd.ErrOrStderr(), r.q.output.Name, c)
	}
	return err
}
