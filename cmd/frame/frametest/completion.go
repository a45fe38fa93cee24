package frametest

import (
	"embed"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"pinfold.dev/pinfold/test/must"
)

//go:embed complete.bash complete.zsh complete.fish
var shells embed.FS

// Main runs the tests of a program, or the program itself when a script has called it.
func Main(m *testing.M, program string, main func()) {
	testscript.Main(m, map[string]func(){program: main})
}

// Completion runs a script that tests the completion of a command in real shells. It may use the
// conditions [bash] (with the package bash-completion), [zsh] and [fish], and
//
//	complete SHELL WORD...
//
// which prints what the shell completes the last of the words to.
func Completion(t *testing.T, script string) {
	dir := t.TempDir()
	must.Do(t, os.CopyFS(dir, shells))
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if !available(shell) && !testing.Short() {
			t.Logf("completion in %s is not tested: install Debian's packages bash-completion, zsh and fish", shell)
		}
	}
	testscript.Run(t, testscript.Params{Files: []string{script}, RequireExplicitExec: true,
		Condition: func(name string) (bool, error) { return available(name), nil },
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"complete": func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Check(ts.Exec(args[0], append([]string{filepath.Join(dir, "complete."+args[0])}, args[1:]...)...))
			},
		},
	})
}

// available reports whether a shell can be tested. With -short none is, because it may be another one on
// each machine.
func available(shell string) bool {
	if testing.Short() {
		return false
	}
	if shell == "bash" {
		if _, err := os.Stat("/usr/share/bash-completion/bash_completion"); err != nil {
			return false
		}
	}
	_, err := exec.LookPath(shell)
	return err == nil
}
