// Package builds tests how programs are built: what they link, how large the agent is, and that
// "go install" installs pinfold without downloading Kubernetes.
package builds

import (
	"debug/elf"
	"debug/gosym"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/need"
)

// forbidden returns, for each of some programs, packages that it must not import.
//
// "pinfold status" needs a client; a whole component of Kubernetes, or the client for all kinds, would
// make the command several times as large, and slower to build and to start.
//
// The agent is root on each node. The servers' libraries bring CEL, OpenTelemetry and a proxy's client.
func forbidden() map[string][]string {
	components := []string{"k8s.io/kubernetes", "k8s.io/apiserver", "k8s.io/apiextensions-apiserver", "k8s.io/component-base", "k8s.io/kube-scheduler", "sigs.k8s.io/kwok"}
	return map[string][]string{
		"pinfold": slices.Concat(components, []string{"go.etcd.io", "k8s.io/client-go/kubernetes", "k8s.io/client-go/informers"}),
		"pinfold-agent": slices.Concat(components, []string{"go.etcd.io/etcd/server", "go.etcd.io/etcd/client/v3", "go.opentelemetry.io",
			"github.com/google/cel-go", "sigs.k8s.io/apiserver-network-proxy"}),
	}
}

func TestForbiddenImports(t *testing.T) {
	for name, packages := range forbidden() {
		if linked := below(dependencies(t, "../../cmd/"+name), packages); len(linked) > 0 {
			t.Errorf("%s must not import these %d packages:\n%s", name, len(linked), strings.Join(linked, "\n"))
		}
	}
}

// TestForbiddenIsFound proves that the test above can fail.
func TestForbiddenIsFound(t *testing.T) {
	if len(below(dependencies(t, "k8s.io/client-go/kubernetes/scheme"), forbidden()["pinfold"])) == 0 {
		t.Error("a package of Kubernetes is not recognised")
	}
}

// dependencies returns the packages that a package imports, directly or not.
func dependencies(t *testing.T, pkg string) []string {
	t.Helper()
	return strings.Fields(run(t, exec.CommandContext(t.Context(), "go", "list", "-deps", pkg)))
}

// below returns the packages that are one of parents, or below one.
func below(packages, parents []string) []string {
	return slices.DeleteFunc(slices.Clone(packages), func(p string) bool {
		return !slices.ContainsFunc(parents, func(parent string) bool { return p == parent || strings.HasPrefix(p, parent+"/") })
	})
}

// run returns what a command writes to standard output.
func run(t *testing.T, command *exec.Cmd) string {
	t.Helper()
	var stderr strings.Builder
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", command, err, stderr.String())
	}
	return string(out)
}

// maxAgent is the maximum size of the agent in bytes. What made it 80 MB was a template in --version
// and one in gRPC's traces: through them the linker kept every method of every type.
const maxAgent = 40_000_000

// TestAgentSize builds the agent as "make build" does.
func TestAgentSize(t *testing.T) {
	need.This(t, "minutes to build the agent")
	path := filepath.Join(t.TempDir(), "pinfold-agent")
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags", "-s -w", "-o", path, "../../cmd/pinfold-agent")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS="+makefile(t, "GOFLAGS"))
	run(t, build)
	info := must.Get(os.Stat(path))(t)
	t.Logf("%d bytes", info.Size())
	if info.Size() > maxAgent {
		t.Errorf("the agent has %d bytes, want at most %d: 'go build -ldflags=-dumpdep' prints what needs what, and <ReflectMethod> what keeps every method",
			info.Size(), maxAgent)
	}
	names := functions(t, path)
	if !slices.Contains(names, "main.main") {
		t.Fatal("the program has no function main.main")
	}
	// NRI's messages import a WebAssembly runtime, of which only tables may be linked.
	for _, name := range []string{"github.com/tetratelabs/wazero.NewRuntime", "github.com/tetratelabs/wazero.NewRuntimeWithConfig", "text/template.(*Template).Execute"} {
		if slices.Contains(names, name) {
			t.Errorf("the agent links %s", name)
		}
	}
}

// makefile returns the value that the Makefile gives to an exported variable.
func makefile(t *testing.T, name string) string {
	t.Helper()
	text := must.Get(os.ReadFile("../../Makefile"))(t)
	value := regexp.MustCompile(`(?m)^export ` + name + ` = (.+)$`).FindSubmatch(text)
	if value == nil {
		t.Fatalf("the Makefile does not export %s", name)
	}
	return string(value[1])
}

// functions returns the names of the functions in a program, which may be stripped.
func functions(t *testing.T, path string) []string {
	t.Helper()
	file := must.Get(elf.Open(path))(t)
	defer file.Close()
	lines := must.Get(file.Section(".gopclntab").Data())(t)
	table := must.Get(gosym.NewTable(nil, gosym.NewLineTable(lines, file.Section(".text").Addr)))(t)
	var names []string
	for i := range table.Funcs {
		names = append(names, table.Funcs[i].Name)
	}
	return names
}
