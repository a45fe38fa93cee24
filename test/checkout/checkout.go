// Package checkout copies this repository, with a commit and tags of its own, so that tests can make
// releases of what is there now.
package checkout

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Copy returns a directory with all files of the repository that git does not ignore, in a commit with the
// tag of a version, such as v0.1.0, which has a section in the changelog.
func Copy(t testing.TB, version string) string {
	t.Helper()
	dir := t.TempDir()
	Shell(t, root(t), "git ls-files -z --cached --others --exclude-standard | xargs -0 sh -c 'for file; do test ! -e \"$file\" || printf \"%s\\0\" \"$file\"; done' sh | "+
		"tar --null -T - -cf - | tar -C "+dir+" -xf -")
	changelog := filepath.Join(dir, "CHANGELOG.md")
	text, err := os.ReadFile(changelog)
	if err == nil {
		err = os.WriteFile(changelog, append(text, "\n## "+version+" (2026-12-01)\n\n- A release.\n"...), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	Shell(t, dir, "git init -q && git add -A && git -c user.name=x -c user.email=x@example.com commit -qm "+version+" && git tag "+version)
	return dir
}

func root(t testing.TB) string {
	t.Helper()
	out, err := exec.Command("git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// Shell executes commands in a directory.
func Shell(t testing.TB, dir, script string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "bash", "-e", "-o", "pipefail", "-c", script)
	command.Dir = dir
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	if err := command.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out.String())
	}
}
