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

// linked returns the packages that the command links on a system.
func linked(t *testing.T, environment ...string) []string {
	t.Helper()
	need.This(t, "the go command")
	command := exec.Command("go", "list", "-deps", ".")
	command.Env = append(os.Environ(), environment...)
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %v", command, err)
	}
	return strings.Fields(string(out))
}

// TestSmallClient keeps the command small and quick to build and to start.
func TestSmallClient(t *testing.T) {
	for _, path := range linked(t) {
		if slices.ContainsFunc(forbidden, func(f string) bool { return path == f || strings.HasPrefix(path, f+"/") }) {
			t.Errorf("cmd/pinfold must not link %s", path)
		}
	}
}

// TestWithoutLinux keeps the command buildable for other systems, where topology, place, trace and
// status are useful: there it must not import packages that need Linux.
func TestWithoutLinux(t *testing.T) {
	all := linked(t, "GOOS=darwin", "GOARCH=arm64")
	for name, want := range map[string]bool{"linux/cgroup": false, "linux/confine": false, "linux/kubepods": false, "linux/sampler": false, "tracefile": true, "kube/survey": true} {
		if slices.Contains(all, "pinfold.dev/pinfold/"+name) != want {
			t.Errorf("%s is linked: %v, want %v: files for Linux only have a build constraint", name, !want, want)
		}
	}
}
