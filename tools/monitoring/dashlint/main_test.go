package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// with returns the arguments that check a dashboard and our rules, relative to the project's root.
func with(dashboard string) []string {
	return []string{"-metrics", "agent/testdata/metrics.prom", "-rules", "deploy/chart/files/rules.yaml", "-runbook", "docs/monitoring.md", dashboard}
}

const dashboard = "deploy/chart/files/dashboard.json"

func TestRepository(t *testing.T) {
	t.Chdir("../../..")
	var out bytes.Buffer
	if err := run(with(dashboard), &out, &out); err != nil {
		t.Errorf("%v\n%s", err, &out)
	}
}

func TestProblems(t *testing.T) {
	t.Chdir("../../..")
	text, err := os.ReadFile(dashboard)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "renamed.json")
	if err := os.WriteFile(file, bytes.ReplaceAll(text, []byte("pinfold_holding"), []byte("pinfold_hold")), 0o644); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	err = run(with(file), &out, &errs)
	want := file + `: panel "Agents that hold": query A: there is no metric "pinfold_hold"` + "\n"
	if err == nil || err.Error() != "problems: 1" || out.String() != want {
		t.Errorf("%v\n%s", err, &out)
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{}, {"-metrics"}, {"-metrics", "x", "-rules", "y"}, {"-what"}} {
		var out, errs bytes.Buffer
		if err := run(args, &out, &errs); !errors.Is(err, errUsage) {
			t.Errorf("%q: %v", args, err)
		}
	}
	var out bytes.Buffer
	if err := run([]string{"-metrics", "not-there"}, &out, &out); err == nil || !strings.Contains(err.Error(), "not-there") {
		t.Errorf("a missing file: %v", err)
	}
}
