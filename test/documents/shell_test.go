package documents

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/need"
)

// shell executes commands as a reader of the documents does.
type shell struct {
	*testing.T
	dir string // a directory with the repository's programs and files, in which new ones are the test's
	env []string
}

// newShell returns a shell that has some programs.
func newShell(t *testing.T, names ...string) shell {
	t.Helper()
	need.This(t, "the programs that it executes")
	s := shell{T: t, dir: t.TempDir()}
	for _, name := range names {
		must.Get(need.Program(name))(t)
	}
	for _, name := range []string{"bin", "cmd", "deploy", "lab"} {
		target := must.Get(filepath.Abs(filepath.Join(root, name)))(t)
		if dir := os.Getenv(need.ProgramsEnv); name == "bin" && dir != "" {
			target = dir
		}
		must.Do(t, os.Symlink(target, filepath.Join(s.dir, name)))
	}
	s.env = []string{"PATH=" + filepath.Join(s.dir, "bin") + ":" + os.Getenv("PATH")}
	return s
}

// functions let make find the repository, and do without sudo.
const functions = `make() { command make --no-print-directory -C "$REPOSITORY" "$@"; }
[ "$(id -u)" != 0 ] || sudo() { "$@"; }
`

// command returns the command of a script that ends with the test, and with it all that it starts.
func (s shell) command(script string) *exec.Cmd {
	s.Helper()
	repository := must.Get(filepath.Abs(root))(s)
	c := exec.CommandContext(s.Context(), "bash", "-euo", "pipefail", "-c", functions+script)
	c.Dir, c.Env = s.dir, append(append(os.Environ(), "REPOSITORY="+repository), s.env...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGTERM) }
	c.WaitDelay = time.Minute
	return c
}

// run executes a script, which must succeed, and returns all that it prints.
func (s shell) run(script string) string {
	s.Helper()
	c := s.command(script)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Start()
	if err == nil {
		err = c.Wait()
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGTERM) // what a failed script has left
	}
	if s.Logf("$ %s\n%s", script, out.String()); err != nil {
		s.Fatal(err)
	}
	return out.String()
}

// write writes a file that commands read.
func (s shell) write(name, text string) {
	s.Helper()
	must.Do(s, os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600))
}

// blocks returns the texts of the blocks of a document with an info string.
func (s shell) blocks(document, info string) (all []string) {
	s.Helper()
	for _, block := range golden.ReadCode(s, filepath.Join(root, document)) {
		if block.Info == info {
			all = append(all, block.Text)
		}
	}
	if len(all) == 0 {
		s.Fatalf("%s has no block %q", document, info)
	}
	return all
}

// requireRoot skips a test whose commands make control groups, or trace.
func requireRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, as these commands do")
	}
}

// contains checks that a text has some parts.
func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in:\n%s", part, text)
		}
	}
}
