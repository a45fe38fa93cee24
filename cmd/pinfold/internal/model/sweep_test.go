package model

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/race"
)

// TestSweepFiles replaces a sweep of all distributions: isSweepFile knows all its files.
func TestSweepFiles(t *testing.T) {
	race.SkipLong(t)
	dir := t.TempDir()
	var names []string
	for _, f := range families() {
		names = append(names, f.name)
	}
	for range 2 {
		cmd := NewSimulate()
		cmd.SetArgs([]string{"sweep", "-o", filepath.Join(dir, "sweep"), "--force", "--distribution", strings.Join(names, ","),
			"--mean", ".5", "--cgroups", "2", "--burst", "100%", "--periods", "6400"})
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		must.Do(t, cmd.ExecuteContext(t.Context()))
	}
	entries, err := os.ReadDir(filepath.Join(dir, "sweep"))
	if err != nil || len(entries) != 2+4*len(names) {
		t.Errorf("%d files for %d distributions: %v", len(entries), len(names), err)
	}
}
