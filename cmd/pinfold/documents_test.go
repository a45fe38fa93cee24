//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/cmd/frame/frametest"
	"pinfold.dev/pinfold/test/must"
)

func pinfold() *cobra.Command { return newRoot("pinfold") }
func plugin() *cobra.Command  { return newRoot(pluginName) }

func TestDocuments(t *testing.T) { frametest.Documents(t, pinfold, plugin) }

// TestWrongFiles gives commands files of other kinds, and checks the words of the errors.
func TestWrongFiles(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"number": "5", "cut": `{"a":`, "yaml": "a: [", "quote": "\"x\n", "log": "start,end\n1,2\n"} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		file := filepath.Join(dir, name)
		for _, args := range [][]string{
			{"place", "--cpus", "1", "--machine", file}, {"topology", "--machine", file}, {"topology", "--sysfs", file},
			{"status", "--kubeconfig", file}, {"place", "--cpus", "1", "--free", text, "--machine", file},
			{"simulate", "sweep", "--mean", "0.5", "-o", filepath.Join(file, "folder")},
			{"run", "--cpuset", text, "--", "true"}, {"sample", "/", "--host-root", file}, {"top", "--host-root", file},
		} {
			var out strings.Builder
			err := frame.Run(t.Context(), newRoot("pinfold"), args, strings.NewReader(""), &out, &out)
			text := strings.ReplaceAll(fmt.Sprint(out.String(), err), dir, "")
			if found := frametest.GoWords.FindString(text); found != "" || text == "<nil>" {
				t.Errorf("pinfold %q: %q in %s", args, found, text)
			}
		}
	}
}

func TestWrongFlags(t *testing.T) { frametest.WrongFlags(t, pinfold) }

func TestHelp(t *testing.T) {
	frametest.Help(t, pinfold)
	frametest.Help(t, plugin)
}

func TestFlags(t *testing.T) {
	frametest.Flags(t, pinfold)
	frametest.Flags(t, plugin)
}
