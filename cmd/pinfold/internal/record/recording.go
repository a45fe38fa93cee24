//go:build linux

package record

import (
	"bufio"
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

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/cmd/pinfold/internal/files"
	"pinfold.dev/pinfold/cmd/pinfold/internal/groups"
	"pinfold.dev/pinfold/core/advice"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/feature"
	"pinfold.dev/pinfold/linux/sampler"
	"pinfold.dev/pinfold/report"
	"pinfold.dev/pinfold/report/recording"
	"pinfold.dev/pinfold/tracefile"
)

// errDone ends the sampling without an error.
var errDone = errors.New("done")

// maxWaiting is the number of ticks that may wait to be written. A disk that is slow for longer
// makes samples late.
const maxWaiting = 1024

// session is a recording in progress. The sampler's goroutine owns present and counts; the writer's
// owns the other variables, except for those in exact.
type session struct {
	options  *sampleOptions
	names    map[string]string
	present  map[string]bool
	counts   map[string]int
	catching map[string]time.Duration // when a group that was throttled will have caught up
	cmd      *cobra.Command
	progress *frame.Progress
	recorder tracefile.Recorder // nil without output
	exact    *exact             // nil without --exact
	weights  *weights           // nil without --weight
	memory   *memory
	noBursts bool // the kernel does not count bursts
	saidEnd  bool // that tracing has ended early
	cost     sampler.Cost
}

// record samples until the end and writes the output. With an error, it also returns what was
// recorded.
func (o *sampleOptions) record(cmd *cobra.Command, fs *cgroup.FS, targets []groups.Target, names *groups.Names) (_ *session, err error) {
	ctx, stop := signal.NotifyContext(o.Context(cmd.Context(), bufio.NewReader(cmd.InOrStdin())), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second ctrl-C kills
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := sampler.New(fs, sampler.Options{Interval: o.interval, Waits: true})
	if err != nil {
		return nil, err
	}
	r := &session{
		options: o, cmd: cmd, names: map[string]string{}, present: map[string]bool{}, counts: map[string]int{}, catching: map[string]time.Duration{},
		progress: frame.NewProgress(cmd.ErrOrStderr()),
		memory:   newMemory(o.interval, o.Remote),
	}
	var paths []string
	for _, t := range targets {
		paths = append(paths, t.Group)
		r.names[t.Group], r.present[t.Group] = t.Name, true
	}
	s.Set(paths)
	if r.weights, err = o.raise(fs, paths, cmd.ErrOrStderr()); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.weights.restore()) }()
	if o.exact {
		if r.exact, err = o.trace(fs, paths, names, groups.Tracing(o.maxCost, cmd.ErrOrStderr())); err != nil {
			return nil, err
		}
	}
	ticks := make(chan sampler.Tick, maxWaiting)
	written := make(chan error, 1)
	go func() {
		err := r.write(ticks, s)
		cancel()
		for range ticks { // discard after an error, so that the sender does not block
		}
		written <- err
	}()
	err = s.Run(ctx, func(t *sampler.Tick) error { return r.take(t, ticks) })
	close(ticks)
	if errors.Is(err, errDone) {
		err = nil
	}
	err = errors.Join(err, <-written)
	if r.exact != nil {
		err = errors.Join(err, r.exact.end())
	}
	r.progress.End()
	r.cost = s.Cost()
	return r, errors.Join(err, r.finish())
}

// summary prints the recording's summary and the cost of sampling.
func (r *session) summary(w io.Writer) error {
	if len(r.memory.rec.Series) == 0 {
		return nil
	}
	if r.exact != nil {
		for i := range r.memory.rec.Series {
			s := &r.memory.rec.Series[i]
			s.Exact = r.exact.series[s.Group]
		}
	}
	if err := recording.PrintSummary(w, &r.memory.rec); err != nil {
		return err
	}
	fmt.Fprintln(w)
	c := r.cost
	report.Line(w, "sampling", "took %.2g%% of a CPU; woke up %v late, 99 of 100 times at most %v; %d times too late for a sample",
		100*c.Share(), recording.Rounded(c.Jitter50), recording.Rounded(c.Jitter99), c.Missed)
	if r.exact != nil {
		r.exact.summary(w)
	}
	if r.noBursts {
		report.Line(w, "note", "this kernel does not count bursts: Linux does since %s", feature.BurstStatistics.Since)
	}
	if note := r.memory.note(); note != "" {
		report.Line(w, "note", "%s", note)
	}
	return nil
}

// take passes a tick on, in the sampler's goroutine, and ends the sampling at the right time.
func (r *session) take(t *sampler.Tick, ticks chan<- sampler.Tick) error {
	ticks <- sampler.Tick{At: t.At, Samples: slices.Clone(t.Samples), Absent: slices.Clone(t.Absent)}
	done := false
	for i := range t.Samples {
		sample := &t.Samples[i]
		r.present[sample.Group] = true
		r.counts[sample.Group]++
		done = done || r.options.samples > 0 && r.counts[sample.Group] >= r.options.samples
		if sample.WasThrottled() {
			r.catching[sample.Group] = sample.At + catchUp*trace.PeriodOf(sample.Limits)
		}
	}
	for _, a := range t.Absent {
		delete(r.present, a.Group)
		delete(r.catching, a.Group)
	}
	done = done || r.options.duration > 0 && r.isOver(t.At+r.options.interval/2)
	if done || len(r.present) == 0 {
		if r.exact != nil {
			r.exact.finish(t.At)
		}
		return errDone
	}
	return nil
}

// catchUp is the number of periods without throttling from which a group has caught up: it is
// counted when a period ends.
const catchUp = 2

// isOver reports whether the recording has its length. While a group is throttled, it is up to a
// tenth longer: what the group wants is known when it has caught up.
func (r *session) isOver(at time.Duration) bool {
	if at < r.options.duration {
		return false
	}
	for _, until := range r.catching {
		if at < until {
			return at >= r.options.duration+r.options.duration/10
		}
	}
	return true
}

// write writes ticks in its own goroutine, so that a slow disk does not delay samples.
func (r *session) write(ticks <-chan sampler.Tick, s *sampler.Sampler) error {
	for t := range ticks {
		if r.memory.rec.Start.IsZero() {
			if err := r.begin(s.Start()); err != nil {
				return err
			}
		}
		for _, line := range absentLines(t.At, t.Absent) {
			r.progress.Say(line)
		}
		if err := r.exact.endedEarly(); err != nil && !r.saidEnd {
			r.saidEnd = true
			r.progress.Say(fmt.Sprintf("pinfold: after %v what threads do is not recorded any more: %v (--max-cost)", t.At.Round(time.Millisecond), err))
		}
		for i := range t.Samples {
			sample := &t.Samples[i]
			row := &tracefile.Row{Group: sample.Group, Name: r.names[sample.Group], Sample: sample.Sample}
			row.Raised, row.TraceEnded = r.weights.holds(row.Group), r.exact.endedEarly() != nil
			if r.recorder != nil {
				if err := r.exact.locked(func() error { return r.recorder.Append(row) }); err != nil {
					return fmt.Errorf("the recording stops after %v: %w", t.At.Round(time.Millisecond), err)
				}
			}
			r.memory.add(row)
			r.noBursts = r.noBursts || sample.Unknown.Has(trace.Bursts)
		}
		r.progress.DrawAt(t.At, func() string { return r.options.progressLine(t.At, r.memory) })
	}
	return nil
}

// progressLine describes the progress, with a bar if the end is known.
func (o *sampleOptions) progressLine(at time.Duration, m *memory) string {
	counts := fmt.Sprintf("%d samples, %d late", m.samples, m.late)
	elapsed := at.Round(100 * time.Millisecond)
	var done float64
	switch {
	case o.duration > 0:
		done = float64(at) / float64(o.duration)
	case o.samples > 0:
		done = float64(m.longest) / float64(o.samples)
	default:
		return fmt.Sprintf("%v  %s  (ctrl-C ends)", elapsed, counts)
	}
	return fmt.Sprintf("%s  %v  %s", frame.Bar(done), elapsed, counts)
}

// maxAbsentLines bounds the messages about groups that vanish together.
const maxAbsentLines = 10

// absentLines are messages about groups that are no longer sampled.
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

// begin opens the output. The first tick tells when the sampling started.
func (r *session) begin(start time.Time) (err error) {
	r.memory.rec.Start = start
	h := tracefile.Header{Start: start, Interval: r.options.interval}
	switch o := r.options; {
	case o.output.Name == "":
	case o.output.Name == tracefile.Stdout && o.Remote:
		r.recorder, err = tracefile.RecordJournal(r.cmd.OutOrStdout(), h)
	case o.output.Name == tracefile.Stdout:
		r.recorder, err = tracefile.RecordCSV(r.cmd.OutOrStdout(), h)
	default:
		r.recorder, err = tracefile.Record(r.options.output, h)
	}
	if err == nil && r.exact != nil {
		r.exact.begin(r.recorder, start)
	}
	return files.ExplainJournal(err, "pinfold")
}

// finish closes the output.
func (r *session) finish() error {
	if r.recorder == nil {
		return nil
	}
	c, err := r.recorder.Finish()
	if err == nil && r.options.output.Name != tracefile.Stdout && c.Rows > 0 {
		noteWritten(r.cmd.ErrOrStderr(), r.options.output.Name, c)
	}
	return files.ExplainJournal(err, "pinfold")
}

// noteReach says which advice the file allows, by the group with the most periods.
func (r *session) noteReach() {
	name, most, period := r.options.output.Name, 0, time.Duration(0)
	if name == "" || name == tracefile.Stdout || r.memory.shortened {
		return
	}
	for i := range r.memory.rec.Series {
		s := &r.memory.rec.Series[i]
		p := trace.PeriodOf(s.Samples[len(s.Samples)-1].Limits)
		if n := len(s.PerPeriod(r.options.interval, p)); n > most && r.options.interval <= p {
			most, period = n, p
		}
	}
	if most > 0 {
		frame.Notef(r.cmd.ErrOrStderr(), "%s: %s of %v, %s", name, quantity.Count(most, "period"), period, advice.Reach(most, period, advice.DefaultGoal().ThrottleRatio))
	}
}

// maxKept and maxKeptRemote bound the samples in memory: 128 bytes each, and up to twice that while
// slices grow. A remote command uses the memory of the agent's container.
const (
	maxKept       = 1 << 20
	maxKeptRemote = 1 << 16
)

// memory keeps the newest samples of a recording for its summary.
type memory struct {
	rec           trace.Recording
	index         map[string]int // of series, by group
	counts        []int          // of each series, in the whole recording
	samples, late int            // of the whole recording
	longest       int            // largest of counts
	kept, maxKept int
	shortened     bool // older samples were dropped
}

func newMemory(interval time.Duration, remote bool) *memory {
	m := &memory{rec: trace.Recording{Interval: interval}, index: map[string]int{}, maxKept: maxKept}
	if remote {
		m.maxKept = maxKeptRemote
	}
	return m
}

func (m *memory) add(r *tracefile.Row) {
	i, ok := m.index[r.Group]
	if !ok {
		i = len(m.rec.Series)
		m.index[r.Group] = i
		m.rec.Series = append(m.rec.Series, trace.Series{Group: r.Group, Name: r.Name})
		m.counts = append(m.counts, 0)
	}
	m.rec.Series[i].Samples = append(m.rec.Series[i].Samples, r.Sample)
	m.counts[i]++
	m.longest = max(m.longest, m.counts[i])
	m.kept++
	m.samples++
	if r.Late {
		m.late++
	}
	if m.kept >= m.maxKept {
		m.halve()
	}
}

// halve drops the older half of each series.
func (m *memory) halve() {
	m.kept, m.shortened = 0, true
	for i := range m.rec.Series {
		s := &m.rec.Series[i]
		s.Samples = slices.Delete(s.Samples, 0, len(s.Samples)/2)
		m.kept += len(s.Samples)
	}
}

// note describes what the summary omits, "" if nothing.
func (m *memory) note() string {
	if !m.shortened {
		return ""
	}
	return fmt.Sprintf("the summary is of the last %d of %d samples: 'pinfold trace info FILE' has all", m.kept, m.samples)
}
