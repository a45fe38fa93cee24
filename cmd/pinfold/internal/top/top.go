//go:build linux

// Package top implements the subcommand "top" ([New]): it samples cgroups and shows them as a
// table, live on a terminal, otherwise once. The table itself is report/top.
package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/cmd/internal/frame"
	"pinfold.dev/pinfold/cmd/pinfold/internal/groups"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgroupstat"
	"pinfold.dev/pinfold/linux/confine"
	"pinfold.dev/pinfold/linux/kubepods"
	"pinfold.dev/pinfold/linux/sampler"
	"pinfold.dev/pinfold/report"
	"pinfold.dev/pinfold/report/terminal"
	"pinfold.dev/pinfold/report/top"
)

// New returns the subcommand "top".
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "top [CGROUP...] [flags]",
		Short: "Watch containers use their limits, and being throttled",
		Long: `Watch what control groups use against their limits: over 100 ms and 1 s, their
last periods as bars (! or red: throttled), and over ten seconds the share of
throttled periods (of the kernel's timer, and of all), the CPU time beyond the
quota, and the time in which a thread waited for a CPU.

Without a CGROUP it shows what 'pinfold run' runs, and all containers of this
node's kubelet. A CGROUP is a path in the hierarchy, a directory, or a pattern
of one in quotes.

On a terminal it continues until q or ctrl-C; the last line shows the keys.
Otherwise, and with --once, it samples for a second and prints a table.`,
		Example: `  pinfold top
  pinfold top /user.slice '/system.slice/*.service'
  pinfold top --once --sort throttled > table.txt`,
	}
	o := options{}
	cmd.Flags().DurationVar(&o.interval, "interval", 0, "`TIME` from one sample to the next, 1ms to 1s (default each group's own period)")
	frame.OneOf(cmd.Flags(), &o.order, "sort", "what comes first: the largest value, or the first name", top.Orders()...)
	cmd.Flags().BoolVar(&o.all, "all", false, "also show groups without limit that never used any CPU time, and the sandboxes of pods")
	cmd.Flags().BoolVar(&o.once, "once", false, "print one table and end")
	cmd.Flags().StringVar(&o.root, "host-root", "/", "the machine's root directory is mounted at `DIR`")
	cmd.Flags().StringVar(&o.cgroupRoot, "cgroup-root", "", "the kubelet's --cgroup-root, a `PATH`")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return (&watch{options: o}).run(cmd, args) }
	cmd.ValidArgsFunction = groups.Complete
	return cmd
}

// options is what the flags request.
type options struct {
	interval         time.Duration
	order            top.Order
	all, once        bool
	root, cgroupRoot string
}

// watch is what is watched.
type watch struct {
	options

	fs     *cgroup.FS
	names  *groups.Names
	waits  *sampler.Waits
	groups []string // from arguments; nil: all containers and runs
	listed bool     // there were containers or runs before
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
	if t.fs, err = cgroup.OpenUsage(t.root); err != nil {
		return err
	}
	t.waits = sampler.NewWaits(t.fs)
	t.names = groups.NewNames(t.root)
	for _, arg := range args {
		found, err := groups.Find(t.fs, t.root, arg, cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		t.groups = append(t.groups, found...)
	}
	if len(args) == 0 {
		if _, err := t.list(); err != nil {
			return err
		}
	}
	s, err := sampler.New(t.fs, sampler.Options{Interval: t.interval})
	if err != nil {
		return err
	}
	ctx, stop := frame.Interruptible(cmd.Context())
	defer stop()
	model := top.New()
	model.Sort, model.All = t.order, t.all || len(args) > 0
	model.Always, model.Never = confine.IsRun, t.names.IsSandbox
	if !t.once && terminal.Is(cmd.OutOrStdout()) {
		if keys, ok := cmd.InOrStdin().(*os.File); ok && terminal.Is(keys) {
			l := &live{watch: t, sampler: s, model: model, keys: keys, screen: cmd.OutOrStdout().(*os.File)}
			return l.run(ctx)
		}
	}
	return t.table(ctx, s, model, cmd.OutOrStdout(), cmd.ErrOrStderr())
}

// list returns the groups to sample, and learns their names.
func (t *watch) list() ([]string, error) {
	if t.groups != nil {
		return t.groups, nil
	}
	runs, err := confine.Runs(t.fs)
	if err != nil {
		return nil, err
	}
	naming, err := kubepods.Find(t.fs, t.cgroupRoot)
	switch {
	case errors.Is(err, kubepods.ErrNotFound) && (t.listed || len(runs) > 0):
		t.listed = true
		return runs, nil
	case errors.Is(err, kubepods.ErrNotFound):
		return nil, fmt.Errorf("%w; and no 'pinfold run' is under way; or name control groups to watch (%s)", err, groups.Choice(t.fs, "/"))
	case err != nil:
		return nil, err
	}
	t.listed = true
	containers, err := naming.Containers(t.fs)
	t.names.Learn(naming, containers)
	return append(containers, runs...), err
}

// name returns the name of a group in the table.
func (t *watch) name(group string) string {
	if t.groups != nil {
		return group
	}
	return t.names.Of(group)
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
	paths, err := t.list()
	if err != nil {
		return err
	}
	s.Set(paths)
	for _, group := range paths {
		t.wait(group) // the first reading; shares are counted from here
	}
	err = s.Run(ctx, func(tick *sampler.Tick) error {
		take(m, tick)
		for _, a := range tick.Absent {
			fmt.Fprintln(stderr, report.Printable(fmt.Sprintf("%s: %v", t.name(a.Group), a.Err)))
		}
		if tick.At >= maxInterval {
			return io.EOF
		}
		return nil
	})
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	m.Rename(t.name)
	m.SetWaits(t.wait)
	_, err = io.WriteString(stdout, m.Draw(top.Size{Width: terminal.MapOptions(stdout, os.Getenv).Width}))
	return err
}

// take adds a tick to the table.
func take(m *top.Model, tick *sampler.Tick) {
	for _, x := range tick.Samples {
		m.Add(x.Group, x.NoBursts, x.Sample)
	}
	for _, a := range tick.Absent {
		m.Remove(a.Group)
		if a.Err != nil && !errors.Is(a.Err, cgroup.ErrGone) {
			m.Status.Message = report.Printable(strings.ReplaceAll(a.Err.Error(), "\n", " "))
		}
	}
}
