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

	"pinfold.dev/pinfold/test/race"
)

// TestManual executes the examples of docs/pinfold.md. "json file=NAME" and "csv file=NAME" blocks
// are files, besides the recordings of testdata. "console" blocks are commands with their output;
// those that make control groups are "console cgroups" blocks, and those that need jq "console jq".
func TestManual(t *testing.T) {
	race.SkipLong(t)
	manual, err := os.ReadFile("../../docs/pinfold.md")
	if err != nil {
		t.Fatal(err)
	}
	archive, commands := scriptOf(t, string(manual))
	if commands < 5 {
		t.Fatalf("the manual has %d examples, want some", commands)
	}
	for _, path := range []string{"testdata/manual/cg1.csv", "testdata/manual/range.json", "testdata/recordings/shop.csv"} {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		archive.Files = append(archive.Files, txtar.File{Name: filepath.Base(path), Data: data})
	}
	file := filepath.Join(t.TempDir(), "manual.txtar")
	if err := os.WriteFile(file, txtar.Format(archive), 0o600); err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{Files: []string{file}, Condition: condition})
}

// scriptOf turns the manual's examples into a testscript, and counts commands.
func scriptOf(t *testing.T, manual string) (*txtar.Archive, int) {
	archive := &txtar.Archive{}
	commands := 0
	for _, block := range blocks(t, manual) {
		if _, name, ok := strings.Cut(block.info, " file="); ok {
			archive.Files = append(archive.Files, txtar.File{Name: name, Data: []byte(block.text)})
		}
		guard := ""
		switch block.info {
		case "console":
		case "console cgroups":
			guard = "[cgroups] "
		case "console jq":
			guard = "[exec:jq] "
		default:
			continue
		}
		for example := range strings.SplitSeq(strings.TrimPrefix(block.text, "$ "), "\n$ ") {
			command, output, _ := strings.Cut(example, "\n")
			commands++
			want := fmt.Sprintf("want-%d", commands)
			shell := command + ` 2>&1; status=$?; [ $status = 0 ] || echo exit status $status`
			archive.Comment = fmt.Appendf(archive.Comment, "# %s\n%sexec sh -c '%s'\n%scmp stdout %s\n",
				command, guard, strings.ReplaceAll(shell, "'", "''"), guard, want)
			if output != "" {
				output = strings.TrimSuffix(output, "\n") + "\n"
			}
			archive.Files = append(archive.Files, txtar.File{Name: want, Data: []byte(output)})
		}
	}
	return archive, commands
}

type block struct{ info, text string }

// blocks returns the fenced blocks of a Markdown text.
func blocks(t *testing.T, markdown string) []block {
	var out []block
	parts := strings.Split("\n"+markdown, "\n```")
	if len(parts)%2 == 0 {
		t.Fatal("a fenced block is not closed")
	}
	for i := 1; i < len(parts); i += 2 {
		info, text, _ := strings.Cut(parts[i], "\n")
		out = append(out, block{info, text + "\n"})
	}
	return out
}
