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
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/confine"
	"pinfold.dev/pinfold/linux/kubepods"
	"pinfold.dev/pinfold/linux/sampler"
	"pinfold.dev/pinfold/report"
	"pinfold.dev/pinfold/report/terminal"
	"pinfold.dev/pinfold/report/top"
)

func newTop() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "top [GROUP...] [--interval TIME] [--sort ORDER] [--all] [--once]",
		Short: "Watch containers use their limits, and being throttled",
		Long: `Watch what control groups use against their limits: over 100 ms and 1 s, their last
periods as bars (! or red: throttled), and over ten seconds the share of throttled
periods and the CPU time used beyond quota.

THR/TIMER is the share of those periods in which the kernel's timer ran, THR/WALL of
all that went by. 100ms% and 1s% are shares of the limit. What does not fit is left out.

Without a GROUP it shows what 'pinfold run' runs, and all containers of this node's
kubelet. A GROUP is a path in the hierarchy, a directory, or a pattern of one of
them in quotes ('/system.slice/*.service'), as for 'pinfold sample'.

On a terminal it goes on until q or ctrl-C; keys are named at the bottom. Anywhere
else, and with --once, it samples for a second and prints a table.`,
		Example: `  pinfold top
  pinfold top --sort throttled
  pinfold top /user.slice '/system.slice/*.service'
  pinfold top --once > table.txt`,
		DisableFlagsInUseLine: true,
	}
	var words []string
	for _, o := range top.Orders() {
		words = append(words, string(o))
	}
	t := &topCommand{order: oneOf(words...)}
	cmd.Flags().DurationVar(&t.interval, "interval", 0, "`TIME` from one sample to the next, 1ms to 1s (default each group's own period)")
	cmd.Flags().Var(t.order, "sort", "what comes first: the largest, but for names")
	cmd.Flags().BoolVar(&t.all, "all", false, "show groups without limit that never used any CPU time, too")
	cmd.Flags().BoolVar(&t.once, "once", false, "print one table and end")
	cmd.Flags().StringVar(&t.root, "host-root", "/", "the machine's root directory is mounted at `DIR`")
	cmd.Flags().StringVar(&t.cgroupRoot, "cgroup-root", "", "the kubelet's --cgroup-root, a `PATH`")
	cmd.RunE = asked(func(cmd *cobra.Command, args []string) error {
		if err := t.check(cmd, args); err != nil {
			return err
		}
		return t.run(cmd, args)
	})
	return cmd
}

// topCommand is one call of pinfold top.
type topCommand struct {
	interval         time.Duration
	order            *choice
	all, once        bool
	root, cgroupRoot string

	fs     *cgroup.FS
	names  *containerNames
	groups []string // that were named; none for all containers and runs
	listed bool     // there were containers or runs before
}

// longestInterval keeps the figures for 1 s true.
const longestInterval = time.Second

func (t *topCommand) check(cmd *cobra.Command, args []string) error {
	if cmd.Flags().Changed("interval") {
		if err := sampler.CheckInterval(t.interval); err != nil {
			return &wrongUsage{"--interval: " + err.Error()}
		}
		if t.interval > longestInterval {
			return &wrongUsage{fmt.Sprintf("--interval: %v is too long: the longest is %v", t.interval, longestInterval)}
		}
	}
	if slices.Contains(args, "") {
		return &wrongUsage{"a GROUP is empty: name one such as /system.slice"}
	}
	return nil
}

func (t *topCommand) run(cmd *cobra.Command, args []string) (err error) {
	if t.fs, err = cgroup.Open(t.root); err != nil {
		return err
	}
	t.names = newContainerNames(t.root)
	for _, arg := range args {
		found, err := matchingGroups(t.fs, t.root, arg, cmd.ErrOrStderr())
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
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	model := top.New()
	model.Sort, model.All = top.Order(t.order.value), t.all || len(args) > 0
	model.Always = confine.IsRun
	if !t.once && terminal.Is(cmd.OutOrStdout()) {
		if keys, ok := cmd.InOrStdin().(*os.File); ok && terminal.Is(keys) {
			return newLive(t, s, model, keys, cmd.OutOrStdout().(*os.File)).run(ctx)
		}
	}
	return t.table(ctx, s, model, cmd.OutOrStdout(), cmd.ErrOrStderr())
}

// list returns the groups to sample, and learns their names.
func (t *topCommand) list() ([]string, error) {
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
		return nil, fmt.Errorf("%w; and no 'pinfold run' is under way; or name control groups to watch: pinfold top /system.slice", err)
	case err != nil:
		return nil, err
	}
	t.listed = true
	t.names.learn(naming)
	containers, err := naming.Containers(t.fs)
	return append(containers, runs...), err
}

// name is what a group is called in the table.
func (t *topCommand) name(group string) string {
	if t.groups != nil {
		return group
	}
	return t.names.of(group)
}

// table samples for a second and prints what was seen.
func (t *topCommand) table(ctx context.Context, s *sampler.Sampler, m *top.Model, stdout, stderr io.Writer) error {
	groups, err := t.list()
	if err != nil {
		return err
	}
	s.Set(groups)
	err = s.Run(ctx, func(tick *sampler.Tick) error {
		take(m, tick)
		for _, a := range tick.Absent {
			fmt.Fprintln(stderr, report.Printable(fmt.Sprintf("%s: %v", t.name(a.Group), a.Err)))
		}
		if tick.At >= longestInterval {
			return io.EOF
		}
		return nil
	})
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	m.Rename(t.name)
	_, err = io.WriteString(stdout, m.Draw(top.Size{Width: terminal.MapOptions(stdout, os.Getenv).Width}))
	return err
}

// take puts a tick into the table.
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
