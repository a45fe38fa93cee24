package golden

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
)

// variable is the environment's.
const variable = "PINFOLD_UPDATE"

// Updating reports whether files are rewritten instead of compared.
func Updating() bool { return os.Getenv(variable) == "1" }

// Compare compares a text with that of a file.
func Compare(t testing.TB, file, got string) {
	t.Helper()
	want, err := os.ReadFile(file)
	if err != nil && !Updating() {
		t.Fatalf("%v; %s=1 makes the file", err, variable)
	}
	compare(t, file, string(want), got, got)
}

// Scenarios plays each file of a pattern in a subtest of the file's name without its
// ending. Play returns the file as it should be.
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

// Archives plays each txtar archive of a pattern in a subtest of the file's name without
// its ending. Play is given what stands before the last file, which has the name want,
// and returns what the last file should hold.
func Archives(t *testing.T, pattern, want string, play func(t *testing.T, given *txtar.Archive) string) {
	t.Helper()
	each(t, pattern, func(t *testing.T, file string) {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		end := len(archive.Files) - 1
		if end < 0 || archive.Files[end].Name != want {
			t.Fatalf("the last file of %s is not %q; add an empty one", file, want)
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

// compare compares two texts, or writes a file that has the second one.
func compare(t testing.TB, file, want, got, rewritten string) {
	t.Helper()
	if Updating() {
		if err := os.WriteFile(file, []byte(rewritten), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s says something else (-want +got); %s=1 accepts it:\n%s", file, variable, diff)
	}
}
