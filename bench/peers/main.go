package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"golang.org/x/term"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	status := 0
	switch {
	case errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUsage):
		fmt.Fprintln(os.Stderr, "peers:", err)
		status = 2
	case err != nil:
		fmt.Fprintln(os.Stderr, "peers:", err)
		status = 1
	}
	os.Exit(status)
}

// errUsage is wrapped by errors in the question.
var errUsage = errors.New("wrong usage, see -help")

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
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return o, err
	case err != nil:
		return o, fmt.Errorf("%w: %w", errUsage, err)
	case flags.NArg() > 0:
		return o, fmt.Errorf("%w: %q is not a flag", errUsage, flags.Arg(0))
	case o.sets < 1:
		return o, fmt.Errorf("%w: -sets must be at least 1, not %d", errUsage, o.sets)
	case o.output != "text" && o.output != "markdown" && o.output != "json":
		return o, fmt.Errorf("%w: -o must be text, markdown or json, not %q", errUsage, o.output)
	}
	return o, nil
}

// run executes one command line.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parseOptions(args, stderr)
	if err != nil {
		return err
	}
	begin := time.Now()
	progress := func(what string) {
		if f, ok := stderr.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
			fmt.Fprintf(stderr, "%5.0fs  %s\n", time.Since(begin).Seconds(), what)
		}
	}
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
