//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/rogpeppe/go-internal/txtar"

	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/race"
)

// TestManual executes the examples of docs/pinfold.md. "json file=NAME" and "csv file=NAME" blocks
// are files, besides the recordings of testdata. "console" blocks are commands with their output.
func TestManual(t *testing.T) {
	race.SkipLong(t)
	archive, commands := scriptOf(golden.ReadCode(t, "../../docs/pinfold.md"))
	if commands < 5 {
		t.Fatalf("the manual has %d examples, want some", commands)
	}
	for _, path := range []string{"testdata/manual/cg1.csv", "testdata/recordings/shop.csv"} {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		archive.Files = append(archive.Files, txtar.File{Name: filepath.Base(path), Data: data})
	}
	file := filepath.Join(t.TempDir(), "manual.txtar")
	must.Do(t, os.WriteFile(file, txtar.Format(archive), 0o600))
	testscript.Run(t, testscript.Params{Files: []string{file}, Condition: condition})
}

// scriptOf turns the manual's examples into a testscript, and counts commands.
func scriptOf(blocks []golden.Code) (*txtar.Archive, int) {
	archive := &txtar.Archive{}
	commands := 0
	for _, block := range blocks {
		if name := block.File(); name != "" {
			archive.Files = append(archive.Files, txtar.File{Name: name, Data: []byte(block.Text)})
		}
		if block.Info != "console" {
			continue
		}
		for _, example := range block.Examples() {
			commands++
			want := fmt.Sprintf("want-%d", commands)
			shell := example[0] + ` 2>&1; status=$?; [ $status = 0 ] || echo exit status $status`
			archive.Comment = fmt.Appendf(archive.Comment, "# %s\nexec sh -c '%s'\ncmp stdout %s\n",
				example[0], strings.ReplaceAll(shell, "'", "''"), want)
			archive.Files = append(archive.Files, txtar.File{Name: want, Data: []byte(example[1])})
		}
	}
	return archive, commands
}
