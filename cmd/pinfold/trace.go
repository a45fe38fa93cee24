package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/tracefile"
)

func newTrace() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "trace",
		Short: "Look at recordings, convert and recover them",
		Long: `Look at recordings of 'pinfold sample', convert them, and recover those that were
cut short. Every command reads Parquet, CSV, .npy and journals; what a file is, is
told by its content.`,
		DisableFlagsInUseLine: true,
		Args:                  cobra.ArbitraryArgs,
	}
	cmd.RunE = asked(func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return &wrongUsage{"no command given: use info, convert or recover"}
		}
		return unknownCommand(cmd, args[0])
	})
	cmd.AddCommand(newTraceInfo(), newTraceConvert(), newTraceRecover())
	return cmd
}

func newTraceInfo() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "info FILE [--interval TIME] [-o text|json]",
		Short: "What limit a recording needs at which timescale",
		Long: `Say what was recorded of each group: usage per period, throttling, and for windows
of every length from one sample to a minute the largest usage and the 99th
percentile, in CPUs. The largest is the limit that serves the group at that
timescale.`,
		Example: `  pinfold trace info web.parquet
  pinfold trace info demand.npy --interval 100ms`,
		Args:                  oneFile,
		DisableFlagsInUseLine: true,
	}
	interval := npyInterval(cmd)
	output := outputFlag(cmd)
	cmd.RunE = asked(func(cmd *cobra.Command, args []string) error {
		rec, lost, err := tracefile.Read(args[0], *interval)
		if err != nil {
			return adviseTrace(err)
		}
		warnLost(cmd.ErrOrStderr(), args[0], lost)
		if output.value == outJSON {
			return printJSON(cmd.OutOrStdout(), newTraceInfoJSON(rec))
		}
		return printInfo(cmd.OutOrStdout(), rec)
	})
	return cmd
}

func newTraceConvert() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "convert FILE -o FILE [--group CGROUP] [--interval TIME] [--force]",
		Short: "Convert a recording to Parquet, CSV or .npy",
		Long: `Convert a recording. The ending of the output tells its format: .parquet, .csv,
.npy (one group's usage in nanoseconds), or - for CSV on standard output.`,
		Example: `  pinfold trace convert web.parquet -o web.csv
  pinfold trace convert web.parquet --group /kubepods/podX/Y -o web.npy`,
		Args:                  oneFile,
		DisableFlagsInUseLine: true,
	}
	c := conversionFlags(cmd)
	cmd.Flags().StringVar(&c.group, "group", "", "convert only the group `CGROUP`")
	c.interval = npyInterval(cmd)
	cmd.RunE = asked(func(cmd *cobra.Command, args []string) error { return c.run(cmd, args[0]) })
	return cmd
}

func newTraceRecover() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "recover JOURNAL -o FILE [--force]",
		Short: "Make a file of a recording that was cut short",
		Long: `Make a file of the journal of a recording that was cut short: by a full disk, a
crash or kill -9. The journal stays; remove it when you have looked at the file.`,
		Example:               `  pinfold trace recover web.parquet.journal -o web.parquet`,
		Args:                  oneFile,
		DisableFlagsInUseLine: true,
	}
	c := conversionFlags(cmd)
	c.interval = new(time.Duration)
	cmd.RunE = asked(func(cmd *cobra.Command, args []string) error { return c.run(cmd, args[0]) })
	return cmd
}

// oneFile wants exactly one argument.
func oneFile(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0 || args[0] == "":
		return fmt.Errorf("no file given: name a recording, as in '%s web.parquet'", cmd.CommandPath())
	case len(args) > 1:
		return fmt.Errorf("%q is one argument too many: %s takes one file", args[1], cmd.CommandPath())
	}
	return nil
}

func npyInterval(cmd *cobra.Command) *time.Duration {
	return cmd.Flags().Duration("interval", 0, "the samples of an .npy file are `TIME` long")
}

// conversion is what the flags of a conversion ask for.
type conversion struct {
	output   tracefile.Output
	group    string
	interval *time.Duration
}

func conversionFlags(cmd *cobra.Command) *conversion {
	c := &conversion{}
	cmd.Flags().StringVarP(&c.output.Name, "output", "o", "", "write to `FILE`: *.parquet, *.csv, *.npy, or - for CSV on standard output")
	cmd.Flags().BoolVar(&c.output.Replace, "force", false, "replace the output if it exists")
	return c
}

func (c *conversion) run(cmd *cobra.Command, from string) error {
	if c.output.Name == "" {
		return &wrongUsage{"-o is missing: name the output"}
	}
	if _, err := tracefile.FormatOf(c.output.Name); err != nil {
		return &wrongUsage{fmt.Sprintf("-o %v", err)}
	}
	if err := tracefile.Taken(c.output.Name, c.output.Replace); err != nil {
		return fmt.Errorf("%w: choose another name, or replace it with --force", err)
	}
	f, err := tracefile.Open(from, *c.interval)
	if err != nil {
		return adviseTrace(err)
	}
	defer f.Close()
	rows := f.Rows()
	if c.group != "" {
		rows = tracefile.Only(c.group, rows)
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	done, err := c.write(cmd.OutOrStdout(), f.Header(), until(ctx, rows))
	switch {
	case errors.Is(err, tracefile.ErrEmpty) && c.group != "":
		return fmt.Errorf("%s has no samples of group %s: 'pinfold trace info' says which groups it has", from, c.group)
	case errors.Is(err, tracefile.ErrEmpty):
		return fmt.Errorf("%s: %w", from, tracefile.ErrEmpty)
	case err != nil:
		return err
	}
	warnLost(cmd.ErrOrStderr(), from, f.Lost())
	if c.output.Name != tracefile.Stdout {
		printWritten(cmd.ErrOrStderr(), c.output.Name, done)
	}
	return nil
}

// errInterrupted ends a conversion, which then takes back what it has written so far.
var errInterrupted = errors.New("interrupted: nothing was written")

// until passes on rows until the context is done.
func until(ctx context.Context, rows iter.Seq2[*tracefile.Row, error]) iter.Seq2[*tracefile.Row, error] {
	return func(yield func(*tracefile.Row, error) bool) {
		for r, err := range rows {
			if ctx.Err() != nil {
				yield(nil, errInterrupted)
				return
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

func (c *conversion) write(stdout io.Writer, h tracefile.Header, rows iter.Seq2[*tracefile.Row, error]) (tracefile.Converted, error) {
	if c.output.Name == tracefile.Stdout {
		return tracefile.WriteCSV(stdout, h, rows)
	}
	return tracefile.Write(c.output, h, rows)
}

// printWritten says what was written.
func printWritten(w io.Writer, name string, c tracefile.Converted) {
	fmt.Fprintf(w, "pinfold: %s: %d samples\n", name, c.Rows)
	if c.Note != "" {
		fmt.Fprintf(w, "pinfold: %s\n", c.Note)
	}
}

// warnLost says that the end of a journal is not whole.
func warnLost(w io.Writer, name string, lost int64) {
	if lost > 0 {
		fmt.Fprintf(w, "pinfold: the last %d bytes of %s are not a whole block, and are lost\n", lost, name)
	}
}

func adviseTrace(err error) error {
	if errors.Is(err, tracefile.ErrNoInterval) {
		return fmt.Errorf("%w: say it with --interval, such as --interval 100ms", err)
	}
	return err
}

// printInfo prints the summary of each group with all its timescales.
func printInfo(w io.Writer, rec *trace.Recording) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "%-10s %s\n", "begin", rec.Start.UTC().Format(time.RFC3339))
	for i := range rec.Series {
		s := &rec.Series[i]
		fmt.Fprintln(b)
		sum := printSeries(b, s, rec.Interval)
		printDoubt(b, &sum)
		fmt.Fprintf(b, "\n%10s %8s %8s %8s %10s\n", "window", "windows", "max", "p99", "throttled")
		for _, sc := range thinned(trace.Timescales(s, rec.Interval)) {
			fmt.Fprintf(b, "%10v %8d %8s %8s %9.0f%%\n", windowName(sc.Window), sc.Windows, cpus(sc.Max), cpus(sc.P99), 100*sc.Throttled)
		}
	}
	if err := b.Flush(); err != nil {
		return fmt.Errorf("print the summary: %w", err)
	}
	return nil
}

// thinned leaves out timescales that are less than half again as long as the one before,
// but for those that everyone asks for, and the last.
func thinned(scales []trace.Scale) []trace.Scale {
	var out []trace.Scale
	for i, sc := range scales {
		w := sc.Window
		asked := w == trace.DefaultPeriod || w == time.Second || w == 10*time.Second || i == len(scales)-1
		if len(out) == 0 || asked || 2*w >= 3*out[len(out)-1].Window {
			out = append(out, sc)
		}
	}
	return out
}
