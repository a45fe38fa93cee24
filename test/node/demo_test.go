package node

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/vm/guest"
)

// TestDemo runs the demonstration on this machine: in each of its rounds the kernel keeps the
// container's threads on the CPUs that the scheduler chose.
func TestDemo(t *testing.T) {
	requireNode(t)
	nodePrograms := prepare(t)
	const rounds = 6
	text, err := exec.CommandContext(t.Context(), filepath.Join(programs, "pinfold-local"), "demo", "--node", "--node-binaries", nodePrograms,
		"--cgroup-driver", naming().Driver.String()).CombinedOutput()
	if kept := strings.Count(string(text), "the kernel keeps 1 of 1 container there"); err != nil || kept != rounds {
		t.Errorf("%v; the kernel keeps the container in %d of %d rounds\n%s", err, kept, rounds, text)
	}
}

// TestDemoFleet runs the pods of a fleet for a short time, and reads the page about them: their
// usage is that of the kubelet, and their owners, limits and requests those of kube-state-metrics.
// The minutes that a verdict takes are not waited for.
func TestDemoFleet(t *testing.T) {
	requireNode(t)
	if os.Getenv(guest.Env) != "" {
		t.Skip("runs on the machine itself: the programs for virtual machines have no Prometheus")
	}
	nodePrograms := prepare(t)
	for _, name := range []string{"prometheus", "kube-state-metrics"} {
		file := must.Get(filepath.Abs(filepath.Join(filepath.Dir(binaries), name)))(t)
		if _, err := os.Stat(file); err != nil {
			t.Skipf("needs %s: make bin/%s", name, name)
		}
		if err := os.Symlink(file, filepath.Join(programs, name)); err != nil && !errors.Is(err, fs.ErrExist) {
			t.Fatal(err)
		}
	}
	text, err := exec.CommandContext(t.Context(), filepath.Join(programs, "pinfold-local"), "demo", "--fleet", "--duration", "10s",
		"--node-binaries", nodePrograms, "--cgroup-driver", naming().Driver.String()).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for _, row := range []string{ // namespace, workload, container, two shares, usage, limit, request
		`shop +Deployment/web +app +\S+ +\S+ +\S+ +0\.5 +0\.1 `,
		`shop +Deployment/search +app +- +- +\S+ +- +0\.1 `,
		`shop +StatefulSet/sessions +app +\S+ +\S+ +\S+ +0\.3 +0\.06 `,
		`batch +DaemonSet/logs +app +\S+ +\S+ +\S+ +0\.1 +0\.05 `,
	} {
		if !regexp.MustCompile(`(?m)^` + row).Match(text) {
			t.Errorf("no row %s in\n%s", row, text)
		}
	}
	last := strings.Split(strings.TrimSpace(string(text)), "\n")
	page := strings.TrimPrefix(last[len(last)-1], "The same as a page: ")
	defer os.Remove(page) // of a temporary directory
	if content := must.Get(os.ReadFile(page))(t); !bytes.Contains(content, []byte(`"name":"checkout"`)) {
		t.Errorf("%s: %.300s", page, content)
	}
}
