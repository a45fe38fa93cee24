//go:build linux

// Package why implements the subcommand "why" ([New]): it traces the scheduler and shows where the
// time of containers went. The tracer is linux/schedtrace, the text report/why.
package why

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/cmd/pinfold/internal/groups"
	"pinfold.dev/pinfold/cmd/pinfold/internal/remote"
	"pinfold.dev/pinfold/core/blame"
	"pinfold.dev/pinfold/internal/tabular"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgroupstat"
	"pinfold.dev/pinfold/linux/schedtrace"
	"pinfold.dev/pinfold/report"
	"pinfold.dev/pinfold/report/why"
	"pinfold.dev/pinfold/tracefile"
)

// New returns the subcommand "why".
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "why CGROUP... [flags]\nwhy --pod NAMESPACE/NAME [flags]\nwhy --pid PID [flags]",
		Short: "Show why containers are slow: throttled, or waiting for CPUs, and behind what",
		Long: `Trace the kernel's scheduler for a while, and show where the time of containers
went, exactly: how long their threads ran, were throttled, and waited for a CPU,
behind which other containers or behind each other; the longest delays; and a
conclusion with advice. It ends after --duration, or with ctrl-C.

A group is named as for 'pinfold sample'. Groups below it count as part of it.

It needs root (or CAP_BPF and CAP_PERFMON) and Linux 5.14 or newer with type
information (BTF). It changes nothing, and nothing stays in the kernel when it
ends. It stops by itself when it uses more than --max-cost of the machine's CPU
time.`,
		Example: `  pinfold why --pod default/web
  pinfold why /system.slice/nginx.service --duration 30s
  pinfold why '/kubepods/*/pod*/*' -o json`,
	}
	o := &options{output: frame.OutputFlag(cmd)}
	f := cmd.Flags()
	o.AddFlags(cmd, "trace")
	f.DurationVar(&o.duration, "duration", 10*time.Second, "end after `TIME`")
	f.StringVar(&o.requests, "requests", "", "when it ends, read `FILE`, a log of the container's requests, and show where the time of the slowest went (CSV with columns start and end, as 'pinfold-lab workload requests' prints it)")
	f.BoolVar(&o.histogram, "histogram", false, "also show how long threads waited in each delay (-o json always does)")
	f.StringVar(&o.perfetto.Name, "perfetto", "", "also write what each thread did to `FILE`, for the trace viewer https://ui.perfetto.dev")
	f.BoolVar(&o.perfetto.Replace, "force", false, "replace the FILE of --perfetto if it exists")
	o.maxCost = groups.MaxCost
	frame.ShareVar(f, &o.maxCost, 1, "max-cost", "end early if tracing uses more than this SHARE of the machine's CPU time")
	cmd.RunE, cmd.ValidArgsFunction = o.run, groups.Complete
	return cmd
}

// options is what the flags request.
type options struct {
	groups.Options
	duration time.Duration
	maxCost  float64 // of the machine's CPU time
	requests string  // file
	perfetto tracefile.Output
	output   *frame.Format

	histogram bool
}

func (o *options) check(args []string) error {
	switch {
	case !o.Given(args):
		return frame.Usagef("no control group given: use --pod NAMESPACE/NAME, --pid PID, or %s", o.Missing())
	case slices.Contains(args, ""):
		return frame.Usagef("a control group's name is empty: / is the root of the hierarchy")
	case o.perfetto.Replace && o.perfetto.Name == "":
		return frame.Usagef("--force is about the file of --perfetto: give it, too")
	case o.duration <= 0:
		return frame.Usagef("--duration %v: must be more than 0", o.duration)
	}
	return groups.CheckCost(o.maxCost)
}

// outermost leaves out groups that are below another one, whose threads count there.
func outermost(targets []groups.Target, stderr io.Writer) (outer []groups.Target) {
	for _, t := range targets {
		i := slices.IndexFunc(targets, func(o groups.Target) bool {
			return o.Group != t.Group && strings.HasPrefix(t.Group, strings.TrimSuffix(o.Group, "/")+"/")
		})
		if i < 0 {
			outer = append(outer, t)
		} else {
			frame.Notef(stderr, "left out: %s, which is part of %s: name it without that", t.Group, targets[i].Group)
		}
	}
	return outer
}

// maxDelays is the number of delays of a container that are shown, the longest.
const maxDelays = 5

func (o *options) run(cmd *cobra.Command, args []string) error {
	if err := o.check(args); err != nil {
		return err
	}
	stdout := cmd.OutOrStdout()
	if o.Remote {
		cmd.SetOut(remote.To(stdout, remote.Result))
	} else if err := tracefile.Taken(o.perfetto.Name, o.perfetto.Replace); o.perfetto.Name != "" && err != nil {
		return frame.SuggestForce(err)
	}
	fs, err := cgroup.OpenUsage(o.Root)
	if err != nil {
		return err
	}
	targets, names, err := o.Targets(fs, args, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	progress := frame.NewProgress(cmd.ErrOrStderr())
	request := schedtrace.Request{Duration: o.duration, Longest: maxDelays, Passed: func(at time.Duration) {
		progress.DrawAt(at, func() string {
			return fmt.Sprintf("%s  %v  (ctrl-C ends)", frame.Bar(float64(at)/float64(o.duration)), at.Round(100*time.Millisecond))
		})
	}}
	targets = outermost(targets, cmd.ErrOrStderr())
	for _, t := range targets {
		request.Groups = append(request.Groups, t.Group)
	}
	if o.requests != "" {
		if len(targets) != 1 {
			return frame.Usagef("--requests: a log is about one container, and %d are traced: name the container's control group", len(targets))
		}
		request.MaxSpans = maxSpans
		if o.Remote {
			request.MaxSpans = maxSpansRemote
		}
	}
	input := bufio.NewReader(cmd.InOrStdin())
	inputBegan := o.Context(cmd.Context(), input)
	ctx, stop := frame.Interruptible(inputBegan)
	defer stop()
	var seen *schedtrace.Observation
	var expensive *schedtrace.CostError
	fileErr := o.observed(stdout, &request, names, func() error {
		if seen, err = schedtrace.Observe(ctx, fs, request, groups.Tracing(o.maxCost, cmd.ErrOrStderr())); errors.As(err, &expensive) {
			err = nil
		}
		return err
	})
	progress.End()
	o.NoteEnded(cmd.ErrOrStderr())
	if seen == nil && err == nil {
		return fileErr
	}
	if err != nil {
		if errors.Is(err, errors.ErrUnsupported) {
			err = fmt.Errorf("%w; 'pinfold sample' and 'pinfold top' work without", err)
		}
		return err
	}
	result := &why.Report{Report: seen.Report, Process: seen.Process, Events: seen.Cost.Lost, Histogram: o.histogram,
		Kind:   func(g blame.Group) why.Kind { return names.Kind(seen.Path(g)) },
		Yields: func(g, to blame.Group) bool { return names.Yields(seen.Path(g), seen.Path(to)) },
		Waited: func(by blame.Occupant) string { return groups.Occupant(seen, names, by) }}
	if expensive != nil {
		result.Ended = fmt.Sprintf("it ended early: %v (--max-cost)", expensive)
	}
	var logErr error
	for _, t := range targets {
		c := why.Container{Name: report.Printable(t.Name), Group: seen.Subjects[t.Group]}
		if c.Name == "" {
			c.Name = report.Printable(t.Group)
		}
		for g := seen.Above(c.Group); g != 0; g = seen.Above(g) {
			c.Above = append(c.Above, g)
		}
		if r, err := cgroupstat.Open(fs, t.Group); err == nil { // else it has ended
			c.Limits, _ = r.Limits()
			r.Close()
		}
		if o.requests != "" && o.Remote {
			if _, err := remote.To(stdout, remote.Ready).Write(nil); err != nil {
				return err
			}
			<-inputBegan.Done()
			c.Requests, logErr = o.slowest(seen, c.Group, input, math.MaxInt32)
		} else if o.requests != "" {
			c.Requests, logErr = o.logged(seen, c.Group)
		}
		result.Containers = append(result.Containers, c)
	}
	if *o.output == frame.JSON {
		return errors.Join(frame.PrintJSON(cmd.OutOrStdout(), result.JSON()), logErr, fileErr)
	}
	return errors.Join(result.Text(cmd.OutOrStdout()), logErr, fileErr)
}

// maxSpans limits a container's timeline to some 300 MiB; a remote command uses the memory of the
// agent's container. maxLogRemote is the number of requests in the log that it reads.
const (
	maxSpans       = 5_000_000
	maxSpansRemote = 200_000
	maxLogRemote   = 200_000
)

// logged is slowest with the file of requests.
func (o *options) logged(seen *schedtrace.Observation, group blame.Group) (*why.Requests, error) {
	f, err := os.Open(o.requests)
	if err != nil {
		return nil, fmt.Errorf("--requests: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("--requests: %w", err)
	}
	return o.slowest(seen, group, f, info.Size())
}

// slowest reads the log of requests, of a size, and splits the times of the slowest.
func (o *options) slowest(seen *schedtrace.Observation, group blame.Group, f io.Reader, size int64) (*why.Requests, error) {
	timeline := seen.Timelines[group]
	if timeline.Cut {
		return nil, fmt.Errorf("--requests: the threads switched too often to record all of it: give a shorter --duration")
	}
	in, _, err := tabular.Decompress(f, size)
	if err != nil {
		return nil, fmt.Errorf("--requests %s: %w", o.requests, err)
	}
	most := math.MaxInt
	if o.Remote {
		most = maxLogRemote
	}
	log, err := readRequests(in, most)
	if err != nil {
		return nil, fmt.Errorf("--requests %s: %w", o.requests, err)
	}
	offset := schedtrace.Now() - time.Duration(time.Now().UnixNano())
	if r := why.Slowest(log, timeline, seen.From, seen.To, offset); r.Traced > 0 {
		return r, nil
	}
	at := func(d time.Duration) string { return time.Unix(0, int64(d-offset)).UTC().Format(time.RFC3339) }
	if len(log) == 0 {
		return nil, fmt.Errorf("--requests %s: no request is in it", o.requests)
	}
	return nil, fmt.Errorf("--requests %s: none of its %d requests, from %s to %s, began and ended in the traced time, %s to %s: is it the log of another time?", o.requests,
		len(log), log[0].Start.Format(time.RFC3339), log[len(log)-1].End.Format(time.RFC3339), at(seen.From), at(seen.To))
}
