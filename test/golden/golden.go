// Package golden compares test results with files in testdata. With PINFOLD_UPDATE=1 it rewrites
// the files instead.
//
//	golden.Compare(t, "testdata/map.txt", got)
//
// There are three kinds of file:
//
//   - A golden file contains the expected text only ([Compare]).
//   - A scenario contains commands, each followed by its output. A player runs the commands and
//     returns the whole text with the actual output ([Scenarios]), usually with [Blocks].
//   - A txtar archive contains the input files of a test and, last, the expected text ([Archives]).
//
// [ReadCode] finds the code blocks of a document, and [Console] plays those that are examples.
//
// All packages use it in their tests, including those of core, so it imports no other package of
// this module.
package golden

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
)

// variable is the environment variable that makes tests rewrite the files.
const variable = "PINFOLD_UPDATE"

// Updating reports whether files are rewritten instead of compared.
func Updating() bool { return os.Getenv(variable) == "1" }

// Compare compares a text with the content of a file.
func Compare(t testing.TB, file, got string) {
	t.Helper()
	want, err := os.ReadFile(file)
	if err != nil && !Updating() {
		t.Fatalf("%v; %s=1 creates the file", err, variable)
	}
	compare(t, file, string(want), got, got)
}

// Scenarios plays each file that matches a pattern in a subtest, which has the file's name without
// its extension. play is called with the content of the file and returns what it should be.
func Scenarios(t *testing.T, pattern string, play func(t *testing.T, text string) string) {
	t.Helper()
	each(t, pattern, func(t *testing.T, file string) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		got := play(t, string(text))
		compare(t, file, string(text), got, got)
	})
}

// Archives plays each txtar archive that matches a pattern in a subtest, which has the file's name
// without its extension. The last file of the archive must be called want. play is called with the
// others and returns what the last file should contain.
func Archives(t *testing.T, pattern, want string, play func(t *testing.T, archive *txtar.Archive) string) {
	t.Helper()
	each(t, pattern, func(t *testing.T, file string) {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		end := len(archive.Files) - 1
		if end < 0 || archive.Files[end].Name != want {
			t.Fatalf("the last file of %s is not %q: add an empty one", file, want)
		}
		last := &archive.Files[end]
		got := play(t, &txtar.Archive{Comment: archive.Comment, Files: archive.Files[:end:end]})
		expected := string(last.Data)
		last.Data = []byte(got)
		compare(t, file, expected, got, string(txtar.Format(archive)))
	})
}

func each(t *testing.T, pattern string, test func(t *testing.T, file string)) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no files %s: %v", pattern, err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
		t.Run(name, func(t *testing.T) { test(t, file) })
	}
}

// compare compares two texts, or writes the rewritten content to the file.
func compare(t testing.TB, file, want, got, rewritten string) {
	t.Helper()
	if Updating() {
		if err := os.WriteFile(file, []byte(rewritten), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s differs (-want +got); %s=1 rewrites it:\n%s", file, variable, diff)
	}
}

// Blocks plays a scenario of blocks: commands, one per line, then a line "----" and the output of
// the commands, up to an empty line. Lines that begin with # are comments. run executes one command
// and returns its output, complete lines. Blocks returns the scenario with the actual output.
func Blocks(t testing.TB, text string, run func(words []string) (string, error)) string {
	t.Helper()
	out, err := blocks(text, run)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func blocks(text string, run func(words []string) (string, error)) (string, error) {
	var out strings.Builder
	printed, skipping := "", false
	for number, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		switch {
		case skipping && line != "":
			continue
		case line == "----":
			out.WriteString("----\n" + printed)
			printed, skipping = "", true
			continue
		case line != "" && !strings.HasPrefix(line, "#"):
			result, err := run(strings.Fields(line))
			if err != nil {
				return "", fmt.Errorf("line %d: %s: %w", number+1, line, err)
			}
			printed += result
		}
		skipping = false
		out.WriteString(line + "\n")
	}
	if printed != "" {
		return "", errors.New("the last commands have no expected output: end them with ----")
	}
	return out.String(), nil
}
