package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/cmd/internal/frame"
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

It runs pinfold in the agent's pod, which takes pods/exec in its namespace.`,
		Example: `  pinfold sample web-0 --duration 10m -o web.parquet
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
	return cmd
}

type sampleOptions struct {
	podOptions
	output tracefile.Output
}

func (o *sampleOptions) run(cmd *cobra.Command, args []string) error {
	toFile := o.output.Name != "" && o.output.Name != tracefile.Stdout
	if toFile {
		format, err := tracefile.FormatOf(o.output.Name)
		if err != nil || format == tracefile.NPY { // that holds one container
			return frame.Usagef("-o %q: want a name that ends in .parquet or .csv, or -", o.output.Name)
		}
		if err := o.output.Check(); err != nil {
			return frame.SuggestForce(err)
		}
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second ctrl-C kills
	s, err := o.open(ctx, args[0])
	if err != nil {
		return err
	}
	flags := given(cmd, "interval", "duration", "samples")
	if o.output.Name == "" {
		return s.run(ctx, "sample", flags, cmd.OutOrStdout(), cmd.ErrOrStderr())
	}
	flags = append(flags, "--output="+tracefile.Stdout)
	if !toFile {
		return s.run(ctx, "sample", flags, cmd.OutOrStdout(), cmd.ErrOrStderr())
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in, out := io.Pipe()
	recorded := make(chan error, 1)
	go func() {
		err := o.record(in, cmd.ErrOrStderr())
		cancel()
		_, _ = io.Copy(io.Discard, in) // until the command has ended
		recorded <- err
	}()
	err = s.run(ctx, "sample", flags, &lines{w: out}, cmd.ErrOrStderr())
	_ = out.Close() // never fails
	return errors.Join(<-recorded, err)
}

// record records the samples of a stream of CSV.
func (o *sampleOptions) record(in io.Reader, stderr io.Writer) error {
	stream, err := tracefile.ReadCSV(in)
	if errors.Is(err, tracefile.ErrEmpty) {
		return nil // the command says why
	}
	if err != nil {
		return fmt.Errorf("read the recording: %w", err)
	}
	recorder, err := tracefile.Record(o.output, stream.Header())
	if err != nil {
		return files.ExplainJournal(err, "kubectl pinfold")
	}
	for row, rowErr := range stream.Rows() {
		if err = rowErr; err == nil {
			err = recorder.Append(row)
		}
		if err != nil {
			break
		}
	}
	c, finishErr := recorder.Finish()
	if finishErr == nil && c.Rows > 0 {
		frame.Notef(stderr, "%s: %d samples", o.output.Name, c.Rows)
	}
	return errors.Join(err, files.ExplainJournal(finishErr, "kubectl pinfold"))
}

// lines passes whole lines on. The rest of a broken connection would look like a row with another
// number.
type lines struct {
	w    io.Writer
	rest []byte
}

func (l *lines) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	end := bytes.LastIndexByte(l.rest, '\n') + 1
	_, err := l.w.Write(l.rest[:end])
	l.rest = l.rest[:copy(l.rest, l.rest[end:])]
	return len(p), err
}
