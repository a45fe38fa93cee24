package main

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestNoKubernetes keeps the command small and quick to build: it may not link packages of
// Kubernetes or etcd.
func TestNoKubernetes(t *testing.T) {
	if linked := kubernetesIn(t, "."); len(linked) > 0 {
		t.Errorf("cmd/pinfold must not import Kubernetes, but links %d packages of it:\n%s",
			len(linked), strings.Join(linked, "\n"))
	}
}

// TestKubernetesIsFound proves that the test above can fail.
func TestKubernetesIsFound(t *testing.T) {
	if len(kubernetesIn(t, "k8s.io/apimachinery/pkg/types")) == 0 {
		t.Error("a package of Kubernetes is not recognised")
	}
}

func kubernetesIn(t *testing.T, pkg string) []string {
	t.Helper()
	command := exec.Command("go", "list", "-deps", pkg)
	var stderr strings.Builder
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("go list -deps %s: %v\n%s", pkg, err, stderr.String())
	}
	var found []string
	for path := range strings.FieldsSeq(string(out)) {
		for _, forbidden := range []string{"k8s.io/", "sigs.k8s.io/", "go.etcd.io/"} {
			if strings.HasPrefix(path, forbidden) {
				found = append(found, path)
			}
		}
	}
	return found
}

// TestWithoutLinux keeps the command buildable for other systems, where topology, place and trace
// are useful: there it must not import packages that need Linux.
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
	if !slices.Contains(linked, "pinfold.dev/pinfold/tracefile") {
		t.Error("'pinfold trace' is missing")
	}
}
