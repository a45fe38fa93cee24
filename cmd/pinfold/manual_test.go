//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/rogpeppe/go-internal/txtar"
	gotxtar "golang.org/x/tools/txtar"

	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/need"
	"pinfold.dev/pinfold/test/race"
)

// TestManual executes the examples of docs/pinfold.md. "json file=NAME" and "csv file=NAME" blocks
// are files, besides docs/prometheus.jq and the recordings of testdata. "console" blocks are
// commands with their output; those that need jq are "console jq" blocks.
func TestManual(t *testing.T) {
	race.SkipLong(t)
	archive, commands := scriptOf(golden.ReadCode(t, "../../docs/pinfold.md"))
	if commands < 5 {
		t.Fatalf("the manual has %d examples, want some", commands)
	}
	for _, path := range []string{
		"testdata/manual/cg1.csv", "testdata/manual/range.json", "testdata/recordings/shop.csv", "../../docs/prometheus.jq",
	} {
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

// TestPrometheus: docs/prometheus.jq makes a recording of the answers in testdata/prometheus, or says
// what to ask instead.
func TestPrometheus(t *testing.T) {
	need.This(t, "jq")
	golden.Archives(t, "testdata/prometheus/*.txtar", "want", func(_ *testing.T, archive *gotxtar.Archive) string {
		var all strings.Builder
		for _, answer := range archive.Files {
			cmd := exec.Command("jq", "-r", "-f", "../../docs/prometheus.jq")
			cmd.Stdin = bytes.NewReader(answer.Data)
			out, err := cmd.CombinedOutput()
			_, text, _ := strings.Cut(string(out), "period_ns\"\n") // the columns, or all of a message
			if err != nil {
				_, text, _ = strings.Cut(string(out), "): ") // after the place, whose text is that of a version
			}
			fmt.Fprintf(&all, "%s\n%s", answer.Name, text)
		}
		return all.String()
	})
}

// scriptOf turns the manual's examples into a testscript, and counts commands.
func scriptOf(blocks []golden.Code) (*txtar.Archive, int) {
	archive := &txtar.Archive{}
	commands := 0
	for _, block := range blocks {
		if name := block.File(); name != "" {
			archive.Files = append(archive.Files, txtar.File{Name: name, Data: []byte(block.Text)})
		}
		guard := ""
		switch block.Info {
		case "console":
		case "console jq":
			guard = "[!short] [exec:jq] "
		default:
			continue
		}
		for _, example := range block.Examples() {
			commands++
			want := fmt.Sprintf("want-%d", commands)
			shell := example[0] + ` 2>&1; status=$?; [ $status = 0 ] || echo exit status $status`
			archive.Comment = fmt.Appendf(archive.Comment, "# %s\n%sexec sh -c '%s'\n%scmp stdout %s\n",
				example[0], guard, strings.ReplaceAll(shell, "'", "''"), guard, want)
			archive.Files = append(archive.Files, txtar.File{Name: want, Data: []byte(example[1])})
		}
	}
	return archive, commands
}
