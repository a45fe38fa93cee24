package cluster

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pinfold.dev/pinfold/core/status"
	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/need"
)

// TestPlugin makes a release of the plugin for this platform, has krew's own program check and install
// it, and runs it with a real kubectl.
func TestPlugin(t *testing.T) {
	c := begin(t)
	root := t.TempDir()
	bin, store, release := filepath.Join(root, "bin"), filepath.Join(root, "krew"), filepath.Join(root, "release")
	c.buildTools(bin)
	server := httptest.NewServer(http.FileServer(http.Dir(release)))
	defer server.Close()
	path := filepath.Join(store, "bin") + ":" + bin + ":" + os.Getenv("PATH")
	variables := []string{"PATH=" + path, "KREW_ROOT=" + store, "KREW_NO_UPGRADE_CHECK=1", "KUBECONFIG=" + c.kubeconfig(), "HOME=" + root}
	t.Setenv("PATH", path) // the commands below are found there
	run := func(command ...string) (stdout, all string, exit int) {
		stdout, stderr, exit := c.execute(exec.CommandContext(t.Context(), command[0], command[1:]...), variables...)
		return stdout, stdout + stderr, exit
	}
	must := func(command ...string) string {
		t.Helper()
		stdout, all, exit := run(command...)
		if exit != 0 {
			t.Fatalf("%q: exit status %d\n%s", command, exit, all)
		}
		return stdout
	}
	archive := filepath.Join(release, "pinfold_linux_"+runtime.GOARCH+".tar.gz")
	make := exec.CommandContext(t.Context(), filepath.Join(bin, "pinfold-release"), "cli", "-version", "v0.1.0", "-url", server.URL,
		"-platforms", "linux/"+runtime.GOARCH, "-o", release)
	if _, messages, exit := c.execute(make); exit != 0 {
		t.Fatalf("make the archive: %s", messages)
	}
	manifest := filepath.Join(release, "pinfold.yaml")
	must("validate-krew-manifest", "-manifest", manifest)
	c.pluginManual(release, variables)

	if help := must("kubectl", "pinfold", "status", "--help"); !strings.Contains(help, "  kubectl pinfold status worker-3 ") || !strings.Contains(help, "Usage:\n  kubectl pinfold status [NODE]") {
		t.Errorf("the help is\n%s", help)
	}
	var report status.Report
	c.must(json.Unmarshal([]byte(must("kubectl", "pinfold", "status", "-o", "json")), &report))
	if len(report.Nodes) != 4 || len(report.Schedulers) != 1 {
		t.Errorf("the status is %+v", report)
	}
	if _, all, exit := run("kubectl", "pinfold", "status", "--fly"); exit != 2 || !strings.Contains(all, "see 'kubectl pinfold status --help'") {
		t.Errorf("exit status %d: %s", exit, all)
	}

	nodes, err := c.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	c.must(err)
	for _, node := range nodes.Items {
		if got := completions(must("kubectl", "__complete", "pinfold", "status", node.Name[:len(node.Name)-1])); !slices.Contains(got, node.Name) {
			t.Errorf("kubectl completes %s to %q", node.Name[:len(node.Name)-1], got)
		}
	}
	if got := completions(must("kubectl", "__complete", "pinfold", "status", "-o", "")); !slices.Equal(got, []string{"text", "wide", "json"}) {
		t.Errorf("kubectl completes -o to %q", got)
	}

	// krew refuses an archive that is not the one of the manifest.
	variables[1] = "KREW_ROOT=" + filepath.Join(root, "another")
	c.must(os.WriteFile(archive, []byte("other"), 0o600))
	if _, all, exit := run("kubectl", "krew", "install", "--manifest", manifest); exit == 0 || !strings.Contains(all, "checksum does not match") {
		t.Errorf("exit status %d: %s", exit, all)
	}
}

// pluginManual installs the plugin, and its completion, with the commands of docs/status.md.
func (c *test) pluginManual(dir string, variables []string) {
	c.Helper()
	manual, err := os.ReadFile(statusManual)
	c.must(err)
	commands := 0
	golden.Console(string(manual), "console plugin", func(command string) string {
		commands++
		shell := exec.CommandContext(c.Context(), "sh", "-c", command)
		shell.Dir = dir
		if out, messages, exit := c.execute(shell, variables...); exit != 0 {
			c.Errorf("%s: exit status %d\n%s%s", command, exit, out, messages)
		}
		return ""
	})
	if commands == 0 {
		c.Error("the manual does not say how to install the plugin")
	}
}

// completions returns the completions in the answer of a command, without descriptions and the
// directive at its end.
func completions(answer string) (all []string) {
	for line := range strings.Lines(answer) {
		if word, _, _ := strings.Cut(strings.TrimSpace(line), "\t"); !strings.HasPrefix(word, ":") {
			all = append(all, word)
		}
	}
	return all
}

// buildTools puts kubectl into a directory, and builds krew, what checks its manifests, and what makes
// ours, which only this test uses.
func (c *test) buildTools(dir string) {
	c.Helper()
	kubectl, err := need.Program("kubectl")
	c.must(errors.Join(err, os.Mkdir(dir, 0o755)))
	c.must(os.Symlink(kubectl, filepath.Join(dir, "kubectl")))
	for name, pkg := range map[string][]string{
		"pinfold-release":        {"../..", "pinfold.dev/pinfold/deploy/release"},
		"kubectl-krew":           {"../../tools/krew", "sigs.k8s.io/krew/cmd/krew"},
		"validate-krew-manifest": {"../../tools/krew", "sigs.k8s.io/krew/cmd/validate-krew-manifest"},
	} {
		build := exec.CommandContext(c.Context(), "go", "build", "-C", pkg[0], "-o", filepath.Join(dir, name), pkg[1])
		if _, messages, exit := c.execute(build); exit != 0 {
			c.Fatalf("build %s: %s", name, messages)
		}
	}
}
