package vm

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/need"
	"pinfold.dev/pinfold/test/vm/guest"
)

// repository is the root of the repository.
const repository = "../.."

// temporary is a directory for what the tests of this program build, each of which is built once.
var temporary = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "pinfold-vm-test-") })

func TestMain(m *testing.M) {
	status := m.Run()
	if dir, err := temporary(); err == nil {
		_ = os.RemoveAll(dir) // of temporary files
	}
	os.Exit(status)
}

// program is a program of a machine and the package that it is built of.
type program struct {
	guest.Program
	pkg string
}

// built returns the path of a program, of a package that is its main package or, for the name
// X.test, that it tests.
func built(t *testing.T, name, pkg string) string {
	t.Helper()
	if dir, path := os.Getenv(need.ProgramsEnv), filepath.Join(os.Getenv(need.ProgramsEnv), name); dir != "" && exists(path) {
		return must.Get(filepath.Abs(path))(t)
	}
	path := filepath.Join(must.Get(temporary())(t), name)
	if exists(path) {
		return path
	}
	version := command(t, "go", "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes")
	flags := "-ldflags=-s -w -X k8s.io/component-base/version.gitVersion=" + strings.TrimSpace(version) // Helm asks the API server
	module := "."
	if rest, inside := strings.CutPrefix(pkg, "./lab/"); inside {
		module, pkg = "lab", "./"+rest
	}
	args := []string{"build", "-C", module}
	if strings.HasSuffix(name, ".test") {
		args = []string{"test", "-C", module, "-c"}
	}
	command(t, "go", append(args, flags, "-trimpath", "-o", path, pkg)...)
	return path
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// command runs a command in the repository and returns what it prints.
func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = repository
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return string(out)
}
