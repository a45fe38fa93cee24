package vm

import (
	"cmp"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"pinfold.dev/pinfold/test/checkout"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/need"
	"pinfold.dev/pinfold/test/vm/guest"
)

// Timeouts end what hangs; no test asserts a time.
const (
	rootTimeout = 5 * time.Minute
	nodeTimeout = 40 * time.Minute
)

// Paths in the machine.
const (
	repositoryDir = "/repository"
	programsDir   = "/programs"
)

// userMode returns the path of the kernel that is a program, and a root file system. It skips the
// test if something is missing.
func userMode(t *testing.T) (kernel, root string) {
	t.Helper()
	kernel = kernelIn(t, UserModeEnv, "a kernel of the architecture um to run this test; the package comment says what it must have")
	if os.Geteuid() != 0 {
		t.Skip("needs root: the root file system of the machine has files of several users")
	}
	if _, err := exec.LookPath(RootMaker); err != nil {
		t.Skipf("%v: install it (Debian: apt-get install mmdebstrap) to run this test", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), rootTimeout)
	defer cancel()
	root, err := Root(ctx)
	if err != nil {
		t.Fatalf("machine: make a root file system: %v", err)
	}
	return kernel, root
}

// nodeTestsEnv is an environment variable with a regular expression of the tests of test/node that
// TestNode runs, instead of some.
const nodeTestsEnv = "PINFOLD_TEST_NODE"

// nodeTests are the tests that TestNode runs: what systemd or version 2 makes different.
const nodeTests = "^TestSettings$/^(rows|metrics|resize|static_pod|doctor|cleanup)$|^(TestReload|TestPartition|TestBatch|TestIdle)$"

// TestNode runs tests of test/node on a machine with cgroup version 2 and systemd.
func TestNode(t *testing.T) {
	runNode(t, cmp.Or(os.Getenv(nodeTestsEnv), nodeTests), tests("sampler", "./linux/sampler", "^TestCostOnThisMachine$"))
}

// TestNodeSmoke boots a machine with systemd and cgroup version 2 once, and runs the smoke test of a
// real node there.
func TestNodeSmoke(t *testing.T) { runNode(t, "^TestSmoke$") }

// runNode runs some tests of test/node, and more programs.
func runNode(t *testing.T, some string, more ...program) {
	t.Helper()
	kernel, root := userMode(t)
	repository := must.Get(filepath.Abs(repository))(t)
	if !exists(filepath.Join(repository, "bin/node/kubelet")) {
		t.Skip("build the programs of a node with \"make build-node\" to run this test")
	}
	dir := t.TempDir()
	node := tests("node", "./test/node", some)
	node.Dir, node.Timeout = repositoryDir+"/test/node", nodeTimeout+time.Minute
	node.Args = append(node.Args, "-test.timeout="+nodeTimeout.String()) // the last one counts
	// Threads of one process never run at the same time there. An API server that used some 470 MB made
	// no more progress, in each of four runs.
	node.Env = []string{need.ProgramsEnv + "=" + programsDir, "PINFOLD_TEST_CGROUP_DRIVER=systemd", "PINFOLD_TEST_RELEASES=" + programsDir + "/releases",
		"GOMAXPROCS=1", "GOGC=400", "GOMEMLIMIT=256MiB", "GODEBUG=asyncpreemptoff=1"}
	names := map[string]string{"pinfold-local": "./cmd/pinfold-local", "pinfold-agent": "./cmd/pinfold-agent"}
	if regexp.MustCompile(some).MatchString("TestOperations") {
		names["pinfold"], names["kubectl"] = "./cmd/pinfold", "k8s.io/kubernetes/cmd/kubectl"
		key := filepath.Join(dir, "key")
		checkout.Shell(t, dir, "openssl ecparam -name prime256v1 -genkey -noout -out "+key)
		for _, version := range []string{"0.1.0", "0.2.0"} { // the guest's tests serve the registry
			command(t, "make", "-C", checkout.Copy(t, "v"+version), "release", "VERSION=v"+version, "REGISTRY=127.0.0.1:5000/pinfold", "URL=http://127.0.0.1/"+version, "KEY="+key,
				"PLATFORMS=linux/amd64", "DIR="+filepath.Join(dir, "releases", version))
		}
	}
	m := Machine{Shape: Shape{Packages: 1, Dies: 1, Cores: 2, Threads: 1}, Kernel: kernel, Init: built(t, "init", "./test/vm/guest/init"),
		System: &guest.System{Root: root, Systemd: true, Shares: map[string]string{repositoryDir: repository, programsDir: dir}}}
	for _, p := range append([]program{node}, more...) {
		names[filepath.Base(p.Path)] = p.pkg
		p.Path = filepath.Join(programsDir, filepath.Base(p.Path))
		m.Programs = append(m.Programs, p.Program)
	}
	for name, pkg := range names {
		command(t, "cp", built(t, name, pkg), dir)
	}
	ran := run(t, m)
	for _, p := range m.Programs {
		replayed(t, p.Name, ran)
	}
}
