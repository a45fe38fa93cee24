package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/cmd/pinfold/internal/files"
	"pinfold.dev/pinfold/cmd/pinfold/internal/remote"
	"pinfold.dev/pinfold/tracefile"
)

// NewWhy returns the plugin's subcommand "why".
func NewWhy() *cobra.Command {
	o := &whyOptions{}
	cmd := &cobra.Command{
		Use:   "why POD [flags]\nwhy --cluster --prometheus URL [flags]",
		Short: "Show why a pod's containers are slow: throttled, or waiting for CPUs, and behind what",
		Long: `Trace the scheduler on the pod's node for a while, and show where the time of
the pod's containers went. 'pinfold why --help' on a node says more.

It runs pinfold in the agent's pod, which takes pods/exec in its namespace, and
an agent that may trace, as those of the chart may by default
(agent.contention). Otherwise it runs in a pod of its own, which it asks about
(--debug).`,
		Example: `  pinfold why web-0
  pinfold why web-0 --requests access.csv --perfetto web.pftrace
  pinfold why --cluster --prometheus http://localhost:9090 --since 24h`,
	}
	o.addFlags(cmd)
	f := cmd.Flags()
	f.Duration("duration", 10*time.Second, "end after `TIME`")
	frame.ShareVar(f, new(0.05), 1, "max-cost", "end early if tracing uses more than this SHARE of the machine's CPU time")
	f.Bool("histogram", false, "also show how long threads waited in each delay (-o json always does)")
	f.StringVar(&o.requests, "requests", "", "when it ends, send `FILE`, a log of the requests of a pod with one container, and show where the time of the slowest went (CSV with columns start and end)")
	f.StringVar(&o.perfetto.Name, "perfetto", "", "also write what each thread did to `FILE`, for the trace viewer https://ui.perfetto.dev")
	f.BoolVar(&o.perfetto.Replace, "force", false, "replace the FILE of --perfetto or --html if it exists")
	format := frame.OutputFlag(cmd)
	o.contention.server.Cluster = o.Server
	o.contention.addFlags(cmd)
	named := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if o.contention.cluster && len(args) == 0 {
			return nil
		}
		return named(cmd, args)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := errors.Join(frame.Needs(f, "cluster", "since", "prometheus", "html"), frame.Needs(f, "prometheus", "cluster", "prometheus-token-file", "prometheus-ca-file", "prometheus-header")); err != nil {
			return err
		}
		if !o.contention.cluster {
			return o.run(cmd, args)
		}
		if len(args) > 0 {
			return frame.Usagef("--cluster is about all pods: give it, or POD, not both")
		}
		for _, name := range []string{"duration", "max-cost", "histogram", "requests", "perfetto", "debug", "debug-image"} {
			if f.Changed(name) {
				return frame.Usagef("--%s is about one pod: leave it out with --cluster", name)
			}
		}
		o.contention.replace = o.perfetto.Replace
		ctx, stop := frame.Interruptible(cmd.Context())
		defer stop()
		return o.contention.run(ctx, cmd.OutOrStdout(), *format, o.namespace)
	}
	return cmd
}

type whyOptions struct {
	podOptions
	contention contentionOptions
	requests   string
	perfetto   tracefile.Output
}

func (o *whyOptions) run(cmd *cobra.Command, args []string) error {
	if err := frame.Needs(cmd.Flags(), "perfetto", "force"); err != nil {
		return err
	}
	if err := tracefile.Taken(o.perfetto.Name, o.perfetto.Replace); o.perfetto.Name != "" && err != nil {
		return frame.SuggestForce(err)
	}
	ctx, stop := frame.Interruptible(cmd.Context())
	defer stop()
	context.AfterFunc(ctx, stop) // a second ctrl-C kills
	s, err := o.open(ctx, cmd, args, "why")
	if err != nil {
		return err
	}
	log := io.NopCloser(strings.NewReader(""))
	if o.requests != "" {
		if log, err = os.Open(o.requests); err != nil {
			return fmt.Errorf("--requests: %w", err)
		}
		defer log.Close()
	}
	flags := changedFlags(cmd, "duration", "max-cost", "histogram", "output", "requests", "perfetto")
	trace := func(file io.Writer) (whole bool, err error) {
		ctx, end := context.WithCancel(ctx)
		defer end()
		err = s.piped(ctx, end, "why", flags, log, cmd.ErrOrStderr(), func(in io.Reader) error {
			return remote.Split(in, map[remote.Stream]io.Writer{
				remote.Result: cmd.OutOrStdout(),
				remote.File:   file,
				remote.Ready:  remote.Func(end),
				remote.Whole:  remote.Func(func() { whole = true }),
			})
		})
		return whole, err
	}
	if o.perfetto.Name == "" {
		_, err = trace(nil)
		return err
	}
	var failed error // with the file complete
	return errors.Join(files.WriteTo(o.perfetto, func(f *os.File) error {
		whole, err := trace(f)
		if whole {
			failed, err = err, nil
		}
		return err
	}), failed)
}
