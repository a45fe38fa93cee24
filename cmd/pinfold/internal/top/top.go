//go:build linux

// Package top implements the subcommand "top" ([New]): it samples cgroups and shows them as a
// table, live on a terminal, otherwise once. The table itself is report/top.
package top

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/cmd/pinfold/internal/groups"
	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgroupstat"
	"pinfold.dev/pinfold/linux/confine"
	"pinfold.dev/pinfold/linux/kubepods"
	"pinfold.dev/pinfold/linux/sampler"
	"pinfold.dev/pinfold/report"
	"pinfold.dev/pinfold/report/terminal"
	"pinfold.dev/pinfold/report/top"
	"pinfold.dev/pinfold/tracefile"
)

// New returns the subcommand "top".
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "top [CGROUP...] [flags]",
		Short: "Watch containers use their limits, and being throttled",
		Long: `Watch what control groups use against their limits: over 100 ms and 1 s, their
last periods as bars (! or red: throttled), and over ten seconds the share of
throttled periods (of the kernel's timer, and of all), the CPU time beyond the
quota, and the time in which a thread waited. The most throttled comes first.

Without a CGROUP, --pod and --pid it shows what 'pinfold run' runs, and this
node's containers, or without a kubelet all groups with processes. A CGROUP is
a path in the hierarchy, a directory, or a pattern of one in quotes.

On a terminal it continues until q or ctrl-C; the last line shows the keys.
Otherwise, and with --once, it samples for a second and prints a table.`,
		Example: `  pinfold top /user.slice '/system.slice/*.service'
  pinfold top --pod default/web
  pinfold top --once --sort usage > table.txt`,
	}
	o := options{}
	o.AddFlags(cmd, "watch")
	cmd.Flags().Lookup("all").Usage = "also show groups without limit that have used no CPU time since it started, and the sandboxes of pods"
	frame.Var(cmd.Flags(), &o.screen, "screen", "SIZE", "draw for a terminal elsewhere, of COLUMNSxLINES, with +colour if it has", parseSize)
	cmd.Flags().BoolVar(&o.journal, "journal", false, "print the samples of a second as a journal")
	_, _ = cmd.Flags().MarkHidden("screen"), cmd.Flags().MarkHidden("journal")
	cmd.Flags().DurationVar(&o.interval, "interval", 0, "`TIME` from one sample to the next, 1ms to 1s (default each group's own period)")
	frame.OneOf(cmd.Flags(), &o.order, "sort", "what comes first: the largest value, or the first name", top.Orders()...)
	cmd.Flags().BoolVar(&o.once, "once", false, "print one table and end")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return (&watch{options: o}).run(cmd, args) }
	cmd.ValidArgsFunction = groups.Complete
	return cmd
}

// options is what the flags request.
type options struct {
	groups.Options
	interval time.Duration
	order    top.Order
	once     bool
	screen   top.Size // of a terminal elsewhere, which also sends the keys; zero without
	journal  bool
}

// parseSize parses the size of a terminal elsewhere.
func parseSize(text string) (s top.Size, err error) {
	size, colour := strings.CutSuffix(text, "+colour")
	s.Colour = colour
	if _, err = fmt.Sscanf(size, "%dx%d", &s.Width, &s.Height); err != nil {
		return s, errors.New("must be COLUMNSxLINES, such as 80x24")
	}
	return s, nil
}

// watch is what is watched.
type watch struct {
	options

	fs     *cgroup.FS
	names  *groups.Names
	waits  *sampler.Waits
	groups []string // from arguments; without these and pods: all containers and runs
	listed bool     // there were containers or runs before
	// unlisted names groups below which runs may be that are not shown, and why containers have no
	// names; nil without any.
	unlisted error
}

// maxInterval is the shorter window of the table's figures.
const maxInterval = time.Second

func (t *options) check(cmd *cobra.Command, args []string) error {
	if cmd.Flags().Changed("interval") {
		if err := sampler.CheckInterval(t.interval); err != nil {
			return frame.Usagef("--interval: %w", err)
		}
		if t.interval > maxInterval {
			return frame.Usagef("--interval: %v is too long: the longest is %v", t.interval, maxInterval)
		}
	}
	if slices.Contains(args, "") {
		return frame.Usagef("a CGROUP is empty: name one such as /system.slice")
	}
	return nil
}

func (t *watch) run(cmd *cobra.Command, args []string) (err error) {
	if err := t.check(cmd, args); err != nil {
		return err
	}
	if t.fs, err = cgroup.OpenUsage(t.Root); err != nil {
		return err
	}
	t.waits = sampler.NewWaits(t.fs)
	t.names = groups.NewNames(t.Root)
	for _, arg := range args {
		found, err := groups.Find(t.fs, t.Root, arg, cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		t.groups = append(t.groups, found...)
	}
	if group, err := t.OfPID(t.fs); err != nil {
		return err
	} else if group != "" {
		t.groups = append(t.groups, group)
	}
	defer t.NoteEnded(cmd.ErrOrStderr())
	if len(args) == 0 {
		if _, err := t.list(); err != nil {
			return err
		}
		if t.unlisted != nil {
			frame.Notef(cmd.ErrOrStderr(), "some runs or names may not be shown: %v", t.unlisted)
		}
	}
	s, err := sampler.New(t.fs, sampler.Options{Interval: t.interval, Waits: t.journal})
	if err != nil {
		return err
	}
	stdout := cmd.OutOrStdout()
	if t.journal {
		return t.send(t.Context(cmd.Context(), bufio.NewReader(cmd.InOrStdin())), s, stdout, cmd.ErrOrStderr())
	}
	model := top.New()
	model.Sort, model.All = t.order, t.Sandboxes || t.Given(args)
	model.Always, model.Never, model.Next = confine.IsRun, t.names.IsSandbox, t.next
	ctx, stop := frame.Interruptible(cmd.Context())
	defer stop()
	l := &live{watch: t, sampler: s, model: model, keys: cmd.InOrStdin(), screen: stdout, size: func() top.Size { return t.screen }}
	if !t.once && t.screen.Width > 0 {
		return l.run(ctx)
	}
	if keys, ok := l.keys.(*os.File); ok && !t.once && terminal.Is(keys) && terminal.Is(stdout) {
		screen := stdout.(*os.File)
		restore, err := terminal.FullScreen(keys, screen)
		if err != nil {
			return err
		}
		defer restore()
		l.size = func() top.Size {
			width, height := terminal.Size(screen)
			return top.Size{Width: width, Height: height, Colour: terminal.MapOptions(screen, os.Getenv).Colour}
		}
		return l.run(ctx)
	}
	return t.table(t.Context(ctx, bufio.NewReader(l.keys)), s, model, stdout, cmd.ErrOrStderr())
}

// list returns the groups to sample, and learns their names.
func (t *watch) list() ([]string, error) {
	if t.groups != nil && len(t.Pods) == 0 {
		return t.groups, nil
	}
	runs, unlisted := confine.Runs(t.fs)
	t.unlisted = unlisted
	naming, err := kubepods.Locate(t.fs, t.CgroupRoot)
	switch {
	case err != nil && len(t.Pods) > 0:
		return nil, fmt.Errorf("--pod %s: %w; name its control groups instead", t.Pods[0], err)
	case errors.Is(err, kubepods.ErrNotFound):
		all := append(runs, groups.WithProcesses(t.fs)...)
		if t.listed = t.listed || len(all) > 0; t.listed {
			slices.Sort(all)
			return slices.Compact(all), nil
		}
		return nil, fmt.Errorf("%w, and none but the root group has processes: name control groups to watch (%s)", kubepods.ErrNotFound, groups.Choice(t.fs, "/"))
	case err != nil:
		return nil, err
	}
	t.listed = true
	containers, err := naming.Containers(t.fs)
	t.unlisted = errors.Join(unlisted, t.names.Learn(naming, containers))
	if len(t.Pods) == 0 || err != nil {
		return append(containers, runs...), err
	}
	all := slices.Clone(t.groups)
	pods, err := t.OfPods(t.fs, t.names)
	for _, c := range pods {
		all = append(all, c.Group)
	}
	return all, err
}

// name returns the name of a group in the table.
func (t *watch) name(group string) string {
	if slices.Contains(t.groups, group) {
		return group
	}
	return t.names.Of(group)
}

// next returns the command line that says why a group is throttled.
func (t *watch) next(worst top.Worst) string {
	command := "pinfold why " + trace.ShellWord(worst.Group)
	if pod := strings.Split(t.names.Known(worst.Group), "/"); len(pod) == 3 {
		command = fmt.Sprintf("pinfold why --pod %s/%s", pod[0], pod[1])
		if t.Remote {
			command = fmt.Sprintf("kubectl pinfold why %s -n %s", pod[1], pod[0])
		}
	}
	return worst.Because(command)
}

// wait returns the part of the last ten seconds in which threads of a group waited for CPUs.
func (t *watch) wait(group string) (share float64, known bool) {
	p, err := cgroupstat.ReadPressure(t.fs, group)
	if errors.Is(err, errors.ErrUnsupported) {
		return t.waits.Share(group)
	}
	return p.Recent, err == nil
}

// table samples for a second and prints a table.
func (t *watch) table(ctx context.Context, s *sampler.Sampler, m *top.Model, stdout, stderr io.Writer) error {
	err := t.second(ctx, s, stderr, func(tick *sampler.Tick) error {
		take(m, tick)
		return nil
	})
	if err != nil {
		return err
	}
	m.Rename(t.name)
	m.SetWaits(t.wait)
	_, err = io.WriteString(stdout, m.Draw(top.Size{Width: cmp.Or(t.screen.Width, terminal.MapOptions(stdout, os.Getenv).Width)}))
	return err
}

// second samples for a second.
func (t *watch) second(ctx context.Context, s *sampler.Sampler, stderr io.Writer, take func(*sampler.Tick) error) error {
	paths, err := t.list()
	if err != nil {
		return err
	}
	s.Set(paths)
	if !t.journal { // whose samples have the waits
		for _, group := range paths {
			t.wait(group) // the first reading; shares are counted from here
		}
	}
	err = s.Run(ctx, func(tick *sampler.Tick) error {
		for _, a := range tick.Absent {
			fmt.Fprintln(stderr, report.Printable(fmt.Sprintf("%s: %v", t.name(a.Group), a.Err)))
		}
		if err := take(tick); err != nil || tick.At < maxInterval {
			return err
		}
		return io.EOF
	})
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// send samples for a second and writes a journal, for a table of several nodes.
func (t *watch) send(ctx context.Context, s *sampler.Sampler, stdout, stderr io.Writer) error {
	recorder, err := tracefile.RecordJournal(stdout, tracefile.Header{Start: time.Now(), Interval: trace.PeriodOf(bandwidth.Limits{})})
	if err != nil {
		return err
	}
	err = t.second(ctx, s, stderr, func(tick *sampler.Tick) error {
		for i := range tick.Samples {
			x := &tick.Samples[i]
			if t.names.IsSandbox(x.Group) {
				continue
			}
			if err := recorder.Append(&tracefile.Row{Group: x.Group, Name: t.names.Known(x.Group), Sample: x.Sample}); err != nil {
				return err
			}
		}
		return nil
	})
	_, finishErr := recorder.Finish()
	return errors.Join(err, finishErr)
}

// take adds a tick to the table.
func take(m *top.Model, tick *sampler.Tick) {
	for _, x := range tick.Samples {
		m.Add(x.Group, x.Sample)
	}
	for _, a := range tick.Absent {
		m.Remove(a.Group)
		if a.Err != nil && !errors.Is(a.Err, cgroup.ErrGone) {
			m.Status.Message = report.Printable(strings.ReplaceAll(a.Err.Error(), "\n", " "))
		}
	}
}
