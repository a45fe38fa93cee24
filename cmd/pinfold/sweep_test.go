package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestSweepInterrupted: an interruption leaves nothing, and says so.
func TestSweepInterrupted(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	err := run(ctx, []string{"simulate", "sweep", "-o", filepath.Join(dir, "sweep"), "--periods", "1e12"}, strings.NewReader(""), io.Discard, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "interrupted: 0 of 216 combinations were done; ") || exitStatus(err) != 1 {
		t.Errorf("error %v, exit status %d", err, exitStatus(err))
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) > 0 {
		t.Errorf("there is %v (%v)", entries, err)
	}
}

// TestSweepFiles: whatever distribution, its files are known as those of a sweep.
func TestSweepFiles(t *testing.T) {
	dir := t.TempDir()
	var names []string
	for _, f := range families() {
		names = append(names, f.name)
	}
	for range 2 {
		err := run(t.Context(), []string{"simulate", "sweep", "-o", filepath.Join(dir, "sweep"), "--force", "--distribution", strings.Join(names, ","),
			"--mean", ".5", "--cgroups", "2", "--burst", "100%", "--periods", "6400"}, strings.NewReader(""), io.Discard, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
	}
	entries, err := os.ReadDir(filepath.Join(dir, "sweep"))
	if err != nil || len(entries) != 2+4*len(names) {
		t.Errorf("%d files for %d distributions: %v", len(entries), len(names), err)
	}
}

func TestShellWord(t *testing.T) {
	for given, want := range map[string]string{
		"a/b-c_1,2=:@%+.": "a/b-c_1,2=:@%+.", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "$x": "'$x'", "é": "'é'", "a;b": "'a;b'", "~": "'~'",
	} {
		if got := shellWord(given); got != want {
			t.Errorf("%q is quoted as %s, want %s", given, got, want)
		}
	}
}

// TestDocsNumbers: some rows of docs/charts/sweep.csv are what the simulator says today.
func TestDocsNumbers(t *testing.T) {
	text, err := os.ReadFile("../../docs/charts/sweep.csv")
	if err != nil {
		t.Fatal(err)
	}
	for _, which := range [][]string{{"exponential", "0.9", "10", "1"}, {"pareto", "0.8", "10", "inf"}} {
		dir := filepath.Join(t.TempDir(), "sweep")
		err := run(t.Context(), []string{"simulate", "sweep", "-o", dir, "--distribution", which[0], "--mean", which[1],
			"--cgroups", which[2], "--burst", strings.Replace(which[3], "1", "100%", 1)}, strings.NewReader(""), io.Discard, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		made, err := os.ReadFile(filepath.Join(dir, "sweep.csv"))
		if err != nil {
			t.Fatal(err)
		}
		_, row, _ := strings.Cut(string(made), "\n")
		if !strings.HasPrefix(row, strings.Join(which, ",")+",") || !strings.Contains(string(text), "\n"+row) {
			t.Errorf("docs/charts/sweep.csv does not have the row\n%sMake docs/charts anew, as its README says", row)
		}
	}
}
