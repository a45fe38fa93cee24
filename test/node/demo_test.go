package node

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pinfold.dev/pinfold/test/must"
)

// TestDemo runs the demonstration on this machine: in each of its rounds the kernel keeps the
// container's threads on the CPUs that the agent gave it.
func TestDemo(t *testing.T) {
	requireNode(t)
	const rounds = 6
	text, err := exec.CommandContext(t.Context(), program(t, "pinfold-local"), "demo", "--node", "--node-binaries", must.Get(filepath.Abs(binaries))(t),
		"--cgroup-driver", naming().Driver.String()).CombinedOutput()
	if kept := strings.Count(string(text), "the kernel keeps 1 of 1 container there"); err != nil || kept != rounds {
		t.Errorf("%v; the kernel keeps the container in %d of %d rounds\n%s", err, kept, rounds, text)
	}
}
