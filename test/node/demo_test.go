package node

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
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
