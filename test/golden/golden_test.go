package golden

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/tools/txtar"

	"pinfold.dev/pinfold/test/must"
)

// recorder records the errors of a test.
type recorder struct {
	testing.TB
	errors []string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

func TestCompare(t *testing.T) {
	t.Setenv(variable, "")
	file := write(t, "a line\n")
	r := &recorder{TB: t}
	if Compare(r, file, "a line\n"); len(r.errors) != 0 {
		t.Errorf("equal texts: %q", r.errors)
	}
	Compare(r, file, "another line\n")
	if len(r.errors) != 1 || !strings.Contains(r.errors[0], file) || !strings.Contains(r.errors[0], "another") {
		t.Errorf("different texts: %q", r.errors)
	}
	check(t, file, "a line\n")
}

func TestUpdate(t *testing.T) {
	t.Setenv(variable, "1")
	made := filepath.Join(t.TempDir(), "made.txt")
	Compare(t, made, "a line\n")
	check(t, made, "a line\n")

	file := write(t, "before\n")
	Scenarios(t, file, func(_ *testing.T, text string) string { return text + "after\n" })
	check(t, file, "before\nafter\n")
}

// TestUpdateByOne: only the value 1 rewrites files; other values have other meanings.
func TestUpdateByOne(t *testing.T) {
	t.Setenv(variable, "captures")
	if Updating() {
		t.Error("Updating() is true")
	}
}

func TestArchives(t *testing.T) {
	const before, after = "about\n-- a --\none\n-- want --\nold\n", "about\n-- a --\none\n-- want --\nnew\n"
	file := write(t, before)
	var played []string
	play := func(t *testing.T, archive *txtar.Archive) string {
		played = append(played, t.Name(), string(txtar.Format(archive)))
		return "new\n"
	}
	t.Setenv(variable, "1")
	Archives(t, file, "want", play)
	check(t, file, after)
	t.Setenv(variable, "")
	Archives(t, file, "want", play)
	want := []string{"TestArchives/file", "about\n-- a --\none\n", "TestArchives/file#01", "about\n-- a --\none\n"}
	if diff := cmp.Diff(want, played); diff != "" {
		t.Errorf("played (-want +got):\n%s", diff)
	}
}

func TestBlocks(t *testing.T) {
	const text = `# about
say a
say b
----
old

say c
----
# not printed
# twice

quiet
`
	want := strings.Replace(text, "old\n", "a\nb\n", 1)
	want = strings.Replace(want, "# not printed\n# twice\n", "c\n", 1)
	run := func(words []string) (string, error) {
		if words[0] == "say" {
			return words[1] + "\n", nil
		}
		if words[0] == "quiet" {
			return "", nil
		}
		return "", fmt.Errorf("unknown command %q", words[0])
	}
	for _, archive := range []string{text, want} {
		got, err := blocks(archive, run)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%v\n%s", err, diff)
		}
	}
	for archive, want := range map[string]string{
		"say a\n":              "no expected output",
		"say a\n----\n\nshout": `line 4: shout: unknown command "shout"`,
	} {
		if _, err := blocks(archive, run); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", archive, err, want)
		}
	}
}

// TestConsole: commands in blocks of the wanted kind are played, and everything else stays.
func TestConsole(t *testing.T) {
	const before = "$ text\n```console\n$ say a\nold\n\nold\n$ say b\n```\n```console other\n$ say c\nold\n```\nend"
	const after = "$ text\n```console\n$ say a\n<say a>\n$ say b\n<say b>\n```\n```console other\n$ say c\nold\n```\nend"
	for _, archive := range []string{before, after} {
		if diff := cmp.Diff(after, Console(archive, "console", func(command string) string { return "<" + command + ">\n" })); diff != "" {
			t.Error(diff)
		}
	}
}

// TestReadCode: fences may be indented; blocks without one follow an empty line.
func TestReadCode(t *testing.T) {
	const text = "a\n    no code\n\n    one\n      two\n\n\n    three\n\nb\n- item:\n\n  ```sh name\n  $ four\n    five\n  ```\n```yaml file=x\nsix\n\n    seven\n```\n"
	want := []Code{{Info: Indented, Text: "one\n  two\n\n\nthree\n"}, {Info: "sh name", Text: "$ four\n  five\n"}, {Info: "yaml file=x", Text: "six\n\n    seven\n"}}
	got := ReadCode(t, write(t, text))
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Code{})); diff != "" {
		t.Error(diff)
	}
	if got[1].File() != "" || got[2].File() != "x" {
		t.Errorf("%q, %q", got[1].File(), got[2].File())
	}
	if diff := cmp.Diff([][2]string{{"four", "  five\n"}}, got[1].Examples()); diff != "" {
		t.Error(diff)
	}
}

// TestEach: Scenarios runs one subtest per file.
func TestEach(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"one.txt", "two.txt", "three.md"} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
	}
	var names []string
	Scenarios(t, filepath.Join(dir, "*.txt"), func(t *testing.T, text string) string {
		names = append(names, t.Name())
		return text
	})
	if want := []string{"TestEach/one", "TestEach/two"}; !slices.Equal(names, want) {
		t.Errorf("subtests %q, want %q", names, want)
	}
}

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file.txt")
	must.Do(t, os.WriteFile(file, []byte(text), 0o644))
	return file
}

func check(t *testing.T, file, want string) {
	t.Helper()
	got, err := os.ReadFile(file)
	if err != nil || string(got) != want {
		t.Errorf("%s has %q (%v), want %q", file, got, err, want)
	}
}
