package main

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestWithoutLinux keeps the command buildable for other systems, where topology, place, trace and
// status are useful: there it must not import packages that need Linux.
func TestWithoutLinux(t *testing.T) {
	command := exec.Command("go", "list", "-deps", ".")
	command.Env = append(os.Environ(), "GOOS=darwin", "GOARCH=arm64")
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %v", command, err)
	}
	linked := strings.Fields(string(out))
	for _, name := range []string{"linux/cgroup", "linux/confine", "linux/kubepods", "linux/sampler"} {
		if slices.Contains(linked, "pinfold.dev/pinfold/"+name) {
			t.Errorf("%s is imported by a file that is not for Linux only", name)
		}
	}
	for _, name := range []string{"tracefile", "kube/survey"} {
		if !slices.Contains(linked, "pinfold.dev/pinfold/"+name) {
			t.Errorf("%s is missing", name)
		}
	}
}
