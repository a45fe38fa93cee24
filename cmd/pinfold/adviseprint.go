package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/core/advice"
	"pinfold.dev/pinfold/report"
	show "pinfold.dev/pinfold/report/advice"
	"pinfold.dev/pinfold/report/terminal"
)

// print prints the advice as asked.
func (q *consultation) print(cmd *cobra.Command, found *show.Report) error {
	switch q.output.value {
	case outJSON:
		return printJSON(cmd.OutOrStdout(), q.newAdviceJSON(found))
	case outPatch:
		return printPatches(cmd.OutOrStdout(), cmd.ErrOrStderr(), found)
	}
	return found.Text(cmd.OutOrStdout(), terminal.Columns(cmd.OutOrStdout()))
}

func printPatches(stdout, stderr io.Writer, found *show.Report) error {
	pods, left, err := found.Patches(stdout)
	for _, sentence := range left {
		fmt.Fprintln(stderr, report.Printable("pinfold: "+sentence))
	}
	switch {
	case err != nil:
		return err
	case pods == 0:
		return errors.New("there is nothing to patch: it takes containers with names, which 'pinfold sample --pod' records, and enough data on them")
	case pods > 1:
		fmt.Fprintf(stderr, "pinfold: %d documents, of which kubectl patch takes the first of a file only: choose pods with --group, or divide the file\n", pods)
	}
	return nil
}

// writePage writes the page, if there is to be one.
func (q *consultation) writePage(found *show.Report) error {
	if q.html == "" {
		return nil
	}
	var page bytes.Buffer
	if err := found.HTML(&page); err != nil {
		return err
	}
	err := writeWhole(q.html, page.Bytes(), q.force)
	if errors.Is(err, fs.ErrExist) {
		return q.pageTaken(err)
	}
	return err
}

// adviceJSON is all advice as JSON. Times are in seconds.
type adviceJSON struct {
	Goal       goalJSON          `json:"goal"`
	Seed       uint64            `json:"seed"`
	Containers []containerAdvice `json:"containers"`
}

type goalJSON struct {
	ThrottleRatio    float64 `json:"throttleRatio"`
	BurstPercent     float64 `json:"burstPercent"`
	ProbabilityWCET1 float64 `json:"probabilityWCET1"`
}

// containerAdvice is the advice with the file that it comes from.
type containerAdvice struct {
	File string `json:"file"`
	advice.Container
	Timescales []scaleInfo  `json:"timescales"`
	Node       *advice.Node `json:"node,omitempty"`
}

func (q *consultation) newAdviceJSON(found *show.Report) adviceJSON {
	out := adviceJSON{Goal: goalJSON{q.goal.ThrottleRatio, 100 * q.goal.Burst, q.goal.ProbabilityWCET1}, Seed: q.seed}
	for _, c := range found.Containers {
		a := containerAdvice{File: c.File, Container: c.Container, Timescales: []scaleInfo{}, Node: c.Node}
		for _, sc := range c.Timescales {
			a.Timescales = append(a.Timescales, newScaleInfo(sc))
		}
		out.Containers = append(out.Containers, a)
	}
	return out
}
