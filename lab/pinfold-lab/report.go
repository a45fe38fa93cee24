package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/internal/atomicfile"
	"pinfold.dev/pinfold/lab/findings"
	"pinfold.dev/pinfold/lab/measure"
)

// newList returns the command that lists the experiments.
func newList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the experiments, and how long they take", Args: frame.NoArguments,
		Long:    "List the experiments, the times of an undisturbed run and of a quick one, and\nthe question that each answers.",
		Example: `  pinfold-lab list`,
		RunE: func(command *cobra.Command, _ []string) error {
			for _, name := range measure.Names() {
				c, err := measure.Named(name)
				if err != nil {
					return err
				}
				full, err := measure.Time(c, measure.Options{})
				if err != nil {
					return err
				}
				quick, err := measure.Time(c, measure.Options{Quick: true})
				if err != nil {
					return err
				}
				if _, err := fmt.Fprintf(command.OutOrStdout(), "%-13s %6v %6v  %s\n", name, full.Round(time.Second), quick.Round(time.Second), c.Question); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// Names of the files of a report.
const (
	page     = "report.html"
	markdown = "report.md"
)

// newReport returns the command that makes a report of earlier runs.
func newReport() *cobra.Command {
	var output string
	command := &cobra.Command{
		Use:   "report DIR... [flags]",
		Short: "Make a report of earlier runs",
		Long: `Write a page (` + page + `) and a text (` + markdown + `) with pictures about
runs. A DIR is that of one run, or one that contains those of several.`,
		Example:           `  pinfold-lab report lab-results -o report`,
		ValidArgsFunction: frame.CompleteDirs,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return frame.Usagef("give a DIR that pinfold-lab run has written")
			}
			return nil
		},
		RunE: func(command *cobra.Command, args []string) error {
			dirs, err := measure.Find(args)
			if err != nil {
				return err
			}
			var runs []findings.Run
			for _, dir := range dirs {
				run, err := open(dir)
				if err != nil {
					return err
				}
				runs = append(runs, run)
			}
			if output == "" {
				output = args[0]
			}
			if err := write(output, runs); err != nil {
				return err
			}
			_, err = fmt.Fprintln(command.OutOrStdout(), filepath.Join(output, page))
			return err
		},
	}
	command.Flags().StringVarP(&output, "output", "o", "", "`DIR` of the report; the first that was named if empty")
	return command
}

func open(dir string) (findings.Run, error) {
	result, recording, err := measure.Open(dir)
	return findings.Run{Result: result, Usage: recording}, err
}

// write writes the report of runs.
func write(dir string, runs []findings.Run) error {
	runs = findings.Prepare(runs)
	files := map[string]func(io.Writer) error{
		page:     func(w io.Writer) error { return findings.Page(w, runs, "pinfold-lab "+frame.Version().Version) },
		markdown: func(w io.Writer) error { return findings.Markdown(w, runs) },
	}
	for _, p := range findings.Pictures(runs) {
		files[p.File] = p.SVG
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var group errgroup.Group
	for name, format := range files {
		group.Go(func() error {
			return atomicfile.WriteFunc(filepath.Join(dir, name), atomicfile.Options{}, func(f *os.File) error { return format(f) })
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}
