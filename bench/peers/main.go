package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"

	"pinfold.dev/pinfold/bench/internal/command"
)

func main() { os.Exit(command.Main("peers", run)) }

// options are the command line.
type options struct {
	sets   int
	times  bool
	output string
}

func parseOptions(args []string, stderr io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&o.sets, "sets", 1000, "free sets per case, at least 1")
	flags.BoolVar(&o.times, "times", true, "show times; without them the output is the same in every run")
	flags.StringVar(&o.output, "o", "text", "output: text, markdown or json")
	if err := command.Parse(flags, args); err != nil {
		return o, err
	}
	switch {
	case o.sets < 1:
		return o, fmt.Errorf("%w: -sets must be at least 1, not %d", command.ErrUsage, o.sets)
	case o.output != "text" && o.output != "markdown" && o.output != "json":
		return o, fmt.Errorf("%w: -o must be text, markdown or json, not %q", command.ErrUsage, o.output)
	}
	return o, nil
}

// run executes one command line.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parseOptions(args, stderr)
	if err != nil {
		return err
	}
	progress := command.Progress(stderr)
	var rows []Row
	for _, mc := range machines() {
		more, err := compare(ctx, mc, o.sets, progress)
		if err != nil {
			return err
		}
		rows = append(rows, more...)
	}
	return printRows(stdout, o, rows)
}

// printRows prints the result as the options say.
func printRows(w io.Writer, o options, rows []Row) error {
	if !o.times {
		for i := range rows {
			rows[i].Median = 0
		}
	}
	switch o.output {
	case "json":
		return printJSON(w, rows)
	case "markdown":
		printMarkdown(w, tables(rows))
	default:
		printText(w, tables(rows))
	}
	return nil
}
