package main

import (
	"os/exec"
	"strings"
	"testing"
)

// TestNoKubernetes keeps the command small and quick to build: none of what it
// links may come from Kubernetes or etcd.
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
