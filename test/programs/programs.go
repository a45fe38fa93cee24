// Package programs finds the programs that the tests of clusters, of the chart and of the documents
// start.
//
// PINFOLD_TEST_PROGRAMS (see test/need) is the absolute path of a directory in which programs are
// already, as "make" builds them in bin/. So a run of many tests builds nothing while it measures or
// waits.
package programs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

// root is that of the repository, seen from the packages that use this one.
const root = "../.."

// found are the programs that this process has found.
var found sync.Map

// Find returns the absolute path of a program, which it builds unless it was built already.
func Find(name string) (string, error) {
	once, _ := found.LoadOrStore(name, sync.OnceValues(func() (string, error) { return find(name) }))
	return once.(func() (string, error))()
}

func find(name string) (string, error) {
	if dir := os.Getenv("PINFOLD_TEST_PROGRAMS"); dir != "" {
		file := filepath.Join(dir, name)
		if _, err := os.Stat(file); err == nil {
			return filepath.Abs(file)
		}
	}
	build := exec.Command("make", "--no-print-directory", "-C", root, "bin/"+name)
	if name == "kubectl" { // which "make" has no use for
		build = exec.Command("go", "build", "-o", root+"/bin/kubectl", "k8s.io/kubernetes/cmd/kubectl")
	}
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", name, err, out)
	}
	return filepath.Abs(filepath.Join(root, "bin", name))
}
