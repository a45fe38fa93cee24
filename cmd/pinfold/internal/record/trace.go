// Package record implements the subcommands "sample" (Linux only), which records the CPU usage of
// cgroups, and "trace" ([NewTrace]), which shows, converts and recovers recordings.
package record

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/cmd/pinfold/internal/files"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/report/recording"
	"pinfold.dev/pinfold/report/simulation"
	"pinfold.dev/pinfold/tracefile"
)

// NewTrace returns the subcommand "trace".
func NewTrace() *cobra.Command {
	return frame.Group(&cobra.Command{
		Use:   "trace",
		Short: "Look at recordings, convert, recover and export them",
		Long: `Look at recordings of 'pinfold sample', convert them, and recover those that
were cut short. Every command reads Parquet, CSV, .npy and journals, and detects
the format from the content.`,
		Example: `  pinfold trace info web.parquet`,
	}, newInfo(), newConvert(), newRecover(), newExport())
}

func newInfo() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "info FILE [flags]",
		Short: "Show what limit a recording needs at which timescale",
		Long: `Show what was recorded of each group: usage per period, throttling, and, for
windows of every length from one sample to a minute, the largest usage and the
99th percentile, in CPUs. A limit of the largest usage serves the group at that
timescale.`,
		Example: `  pinfold trace info web.parquet
  pinfold trace info demand.npy --interval 100ms`,
		Args: oneFile, ValidArgsFunction: files.Complete,
	}
	interval := files.IntervalFlag(cmd)
	output := frame.OutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		rec, lost, err := tracefile.Read(args[0], *interval)
		if err != nil {
			return files.SuggestInterval(err)
		}
		files.NoteLost(cmd.ErrOrStderr(), args[0], lost)
		if *output == frame.JSON {
			return frame.PrintJSON(cmd.OutOrStdout(), recording.NewInfo(rec))
		}
		return recording.PrintInfo(cmd.OutOrStdout(), rec)
	}
	return cmd
}

func newConvert() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "convert FILE -o FILE [flags]",
		Short: "Convert a recording to Parquet, CSV or .npy",
		Long: `Convert a recording. The extension of the output selects its format: .parquet,
.csv, .npy (usage of one group in nanoseconds), or - for CSV on standard output.`,
		Example: `  pinfold trace convert web.parquet -o web.csv
  pinfold trace convert web.parquet --group /kubepods/podX/Y -o web.npy`,
		Args: oneFile, ValidArgsFunction: files.Complete,
	}
	c := conversionFlags(cmd)
	cmd.Flags().StringVar(&c.group, "group", "", "convert only the group `CGROUP` (its path, or NAMESPACE/POD/CONTAINER)")
	c.interval = files.IntervalFlag(cmd)
	return cmd
}

func newRecover() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "recover FILE -o FILE [flags]",
		Short: "Make a file of a recording that was cut short",
		Long: `Make a file of the journal of a recording that was cut short: by a full disk, a
crash or kill -9. The journal is kept; remove it after you have checked the
file.`,
		Example: `  pinfold trace recover web.parquet.journal -o web.parquet`,
		Args:    oneFile, ValidArgsFunction: files.Complete,
	}
	conversionFlags(cmd).interval = new(time.Duration)
	return cmd
}

func oneFile(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0 || args[0] == "":
		return frame.Usagef("no file given: name a recording, as in '%s web.parquet'", cmd.CommandPath())
	case len(args) > 1:
		return frame.Usagef("%q is one argument too many: %s takes one file", args[1], cmd.CommandPath())
	}
	return nil
}

// conversion is what the flags of a conversion request.
type conversion struct {
	output   tracefile.Output
	group    string
	interval *time.Duration
}

func conversionFlags(cmd *cobra.Command) *conversion {
	c := &conversion{}
	cmd.Flags().StringVarP(&c.output.Name, "output", "o", "", "write to `FILE`: *.parquet, *.csv, *.npy, or - for CSV on standard output")
	cmd.Flags().BoolVar(&c.output.Replace, "force", false, "replace the output if it exists")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return c.run(cmd, args[0]) }
	return c
}

func (c *conversion) run(cmd *cobra.Command, from string) error {
	if c.output.Name == "" {
		return frame.Usagef("-o is missing: name the output")
	}
	if _, err := tracefile.FormatOf(c.output.Name); err != nil {
		return frame.Usagef("-o %w", err)
	}
	if err := c.output.Check(); err != nil {
		return frame.SuggestForce(err)
	}
	f, err := tracefile.Open(from, *c.interval)
	if err != nil {
		return files.SuggestInterval(err)
	}
	defer f.Close()
	rows, spans := f.Rows(), tracefile.Spans(from)
	if c.group != "" {
		rows = tracefile.Only(rows, func(r *tracefile.Row) bool { return simulation.Group{Path: r.Group, Name: r.Name}.Matches(c.group) })
		spans = tracefile.Only(spans, func(s *trace.Span) bool {
			return simulation.Group{Path: s.Group, Name: s.Name}.Matches(c.group) || s.Within(c.group)
		})
	}
	ctx, stop := frame.Interruptible(cmd.Context())
	defer stop()
	done, err := c.write(cmd.OutOrStdout(), f.Header(), files.Until(ctx, rows), files.Until(ctx, spans))
	switch {
	case errors.Is(err, tracefile.ErrEmpty) && c.group != "":
		return fmt.Errorf("%s has no samples of group %s: 'pinfold trace info' says which groups it has", from, c.group)
	case errors.Is(err, tracefile.ErrEmpty):
		return fmt.Errorf("%s: %w", from, tracefile.ErrEmpty)
	case err != nil:
		return err
	}
	files.NoteLost(cmd.ErrOrStderr(), from, f.Lost())
	if c.output.Name != tracefile.Stdout {
		noteWritten(cmd.ErrOrStderr(), c.output.Name, done)
	}
	return nil
}

func (c *conversion) write(stdout io.Writer, h tracefile.Header, rows iter.Seq2[*tracefile.Row, error], spans iter.Seq2[*trace.Span, error]) (tracefile.Converted, error) {
	if c.output.Name == tracefile.Stdout {
		return tracefile.WriteCSV(stdout, h, rows)
	}
	return tracefile.WriteExact(c.output, h, rows, spans)
}

func noteWritten(w io.Writer, name string, c tracefile.Converted) {
	frame.Notef(w, "%s: %d samples", name, c.Rows)
	if c.Spans > 0 {
		frame.Notef(w, "%s: %d spans", tracefile.SpansOf(name), c.Spans)
	}
	if c.Note != "" {
		frame.Notef(w, "%s", c.Note)
	}
}
