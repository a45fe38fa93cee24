package need

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

// root is the root of the repository, seen from the packages whose tests start programs.
const root = "../.."

// found has a function for each program that this process has looked for.
var found sync.Map

// Program returns the absolute path of a program: the one in the directory that [ProgramsEnv] names,
// or else in bin/, which "make" brings up to date.
func Program(name string) (string, error) {
	once, _ := found.LoadOrStore(name, sync.OnceValues(func() (string, error) { return find(name) }))
	return once.(func() (string, error))()
}

func find(name string) (string, error) {
	if dir := os.Getenv(ProgramsEnv); dir != "" {
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
