package main

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"pinfold.dev/pinfold/test/need"
)

// forbidden are parts of Kubernetes that the command must not link. "pinfold status" needs a
// client; a whole component, or the client for all kinds, would make the command several times as
// large and slower to build and to start.
var forbidden = []string{
	"k8s.io/kubernetes", "k8s.io/apiserver", "k8s.io/apiextensions-apiserver", "k8s.io/component-base", "k8s.io/kube-scheduler",
	"k8s.io/client-go/kubernetes", "k8s.io/client-go/informers", "sigs.k8s.io/kwok", "go.etcd.io",
}

// TestSmallClient keeps the command small and quick to build and to start.
func TestSmallClient(t *testing.T) {
	if linked := forbiddenIn(t, "."); len(linked) > 0 {
		t.Errorf("cmd/pinfold must not link these %d packages:\n%s", len(linked), strings.Join(linked, "\n"))
	}
}

func forbiddenIn(t *testing.T, pkg string) []string {
	t.Helper()
	need.This(t, "the go command")
	command := exec.Command("go", "list", "-deps", pkg)
	var stderr strings.Builder
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("go list -deps %s: %v\n%s", pkg, err, stderr.String())
	}
	var found []string
	for path := range strings.FieldsSeq(string(out)) {
		if slices.ContainsFunc(forbidden, func(f string) bool { return path == f || strings.HasPrefix(path, f+"/") }) {
			found = append(found, path)
		}
	}
	return found
}

// TestWithoutLinux keeps the command buildable for other systems, where topology, place, trace and
// status are useful: there it must not import packages that need Linux.
func TestWithoutLinux(t *testing.T) {
	need.This(t, "the go command")
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
