// Dashlint checks dashboards and alert rules against the exposed metrics. Package lint documents
// the checks.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"pinfold.dev/pinfold/tools/monitoring/grafana"
	"pinfold.dev/pinfold/tools/monitoring/lint"
)

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "dashlint:", err)
		if errors.Is(err, errUsage) {
			os.Exit(2)
		}
		os.Exit(1)
	}
}

var errUsage = errors.New("usage: dashlint -metrics FILE [-rules FILE -runbook FILE] DASHBOARD [DASHBOARD...]")

func run(args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("dashlint", flag.ContinueOnError)
	flags.SetOutput(stderr)
	metrics := flags.String("metrics", "", "file of exposed metrics")
	rules := flags.String("rules", "", "file of alert rules")
	runbook := flags.String("runbook", "", "document with a section for each alert")
	if flags.Parse(args) != nil || *metrics == "" || (*rules == "") != (*runbook == "") {
		return errUsage
	}
	text, err := os.ReadFile(*metrics)
	if err != nil {
		return err
	}
	known, err := lint.ParseMetrics(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("%s: %w", *metrics, err)
	}
	problems := 0
	show := func(file string, found []string) {
		problems += len(found)
		for _, f := range found {
			fmt.Fprintf(stdout, "%s: %s\n", file, f)
		}
	}
	for _, file := range flags.Args() {
		found, err := checkDashboard(file, known)
		if err != nil {
			return err
		}
		show(file, found)
	}
	if *rules != "" {
		found, err := checkRules(*rules, *runbook, known)
		if err != nil {
			return err
		}
		show(*rules, found)
	}
	if problems > 0 {
		return fmt.Errorf("problems: %d", problems)
	}
	return nil
}

func checkDashboard(file string, known lint.Metrics) ([]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	d, err := grafana.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return lint.Dashboard(d, known), nil
}

func checkRules(file, runbook string, known lint.Metrics) ([]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	book, err := os.ReadFile(runbook)
	if err != nil {
		return nil, err
	}
	return lint.Rules(text, known, lint.Runbook{Name: runbook, Text: string(book)}), nil
}
