package cluster

import (
	"context"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/cmd/pinfold/internal/files"
	"pinfold.dev/pinfold/tracefile"
)

// NewSample returns the plugin's subcommand "sample".
func NewSample() *cobra.Command {
	o := &sampleOptions{}
	cmd := &cobra.Command{
		Use:   "sample POD [flags]",
		Short: "Record what a pod's containers use, period by period",
		Long: `Record CPU usage and throttling of a pod's containers, on the pod's node, and
show at the end what limit they need at which timescale. It ends after
--duration or --samples, with ctrl-C, or when the containers are gone.

-o records to a file here: .parquet or .csv, - for CSV on standard output.
'kubectl pinfold advise FILE' continues from there.

It runs pinfold in the agent's pod, which takes pods/exec in its namespace, or
without an agent in a pod of its own, which it asks about (--debug). --exact
needs what 'kubectl pinfold why' needs.`,
		Example: `  pinfold sample web-0 --duration 10m -o web.parquet --exact
  pinfold sample web-0 -n shop --interval 10ms --duration 1m`,
		RunE: o.run,
	}
	o.addFlags(cmd)
	f := cmd.Flags()
	f.Duration("interval", 0, "take a sample of each container every `TIME`, 1ms or more (default: a fifth of the shortest enforcement period)")
	f.Duration("duration", 0, "end after `TIME`")
	f.Int("samples", 0, "end after `N` samples of a container")
	f.StringVarP(&o.output.Name, "output", "o", "", "record to `FILE`: *.parquet, *.csv, or - for CSV on standard output")
	f.BoolVar(&o.output.Replace, "force", false, "replace FILE if it exists")
	f.BoolVar(&o.exact, "exact", false, "also trace what each thread does, into a second table beside a .parquet file")
	frame.ShareVar(f, new(0.05), 1, "max-cost", "with --exact, trace no longer if it uses more than this SHARE of the machine's CPU time")
	f.Bool("weight", false, "get CPUs before other pods meanwhile: raise the weights of the containers, and of all groups above them")
	return cmd
}

type sampleOptions struct {
	podOptions
	output tracefile.Output
	exact  bool
}

func (o *sampleOptions) run(cmd *cobra.Command, args []string) error {
	format, err := tracefile.FormatOf(o.output.Name)
	switch {
	case o.output.Name != "" && (err != nil || format == tracefile.NPY): // that holds one container
		return frame.Usagef("-o %q: want a name that ends in .parquet or .csv, or -", o.output.Name)
	case o.exact && format != tracefile.Parquet:
		return frame.Usagef("--exact writes a second table beside a Parquet file: give -o FILE.parquet, too")
	case o.output.Name != "":
		if err := o.output.Check(); err != nil {
			return frame.SuggestForce(err)
		}
	}
	if err := frame.Needs(cmd.Flags(), "exact", "max-cost"); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second ctrl-C kills
	trace := ""
	if o.exact {
		trace = "--exact"
	}
	s, err := o.open(ctx, cmd, args, trace)
	if err != nil {
		return err
	}
	flags := changedFlags(cmd, "interval", "duration", "samples", "exact", "max-cost", "weight")
	if o.output.Name == "" {
		return s.run(ctx, "sample", flags, until{ctx}, cmd.OutOrStdout(), cmd.ErrOrStderr())
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	return s.piped(ctx, end, "sample", append(flags, "--output="+tracefile.Stdout), strings.NewReader(""), cmd.ErrOrStderr(), func(in io.Reader) error {
		return o.record(in, cmd.OutOrStdout(), cmd.ErrOrStderr())
	})
}

// record records what arrives in a journal.
func (o *sampleOptions) record(in io.Reader, stdout, stderr io.Writer) error {
	c, err := tracefile.Replay(in, func(h tracefile.Header) (tracefile.Recorder, error) {
		if o.output.Name == tracefile.Stdout {
			return tracefile.RecordCSV(stdout, h)
		}
		return tracefile.Record(o.output, h)
	})
	if err == nil && o.output.Name != tracefile.Stdout && c.Rows > 0 {
		frame.Notef(stderr, "%s: %d samples", o.output.Name, c.Rows)
	}
	return files.ExplainJournal(err, "kubectl pinfold")
}
