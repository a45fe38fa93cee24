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

	"pinfold.dev/pinfold/linux/kubepods"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/vm/guest"
)

// Timeouts, several times the duration on two busy CPUs.
const (
	rootTimeout = 5 * time.Minute
	nodeTimeout = 20 * time.Minute
)

// repository is the root of the repository.
const repository = "../.."

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
	root = must.Get(Root(ctx))(t)
	return kernel, root
}

// nodeTestsEnv is an environment variable with a regular expression of the tests of test/node that
// TestNode runs, instead of some.
const nodeTestsEnv = "PINFOLD_TEST_NODE"

// nodeVariant is a kind of node, and the tests that TestNode runs on it: what is different there.
type nodeVariant struct {
	name    string
	driver  kubepods.Driver
	runtime string // in place of runc, or ""
	tests   string
}

func nodeVariants() []nodeVariant {
	return []nodeVariant{
		{name: "cgroupfs", driver: kubepods.Cgroupfs, tests: "^TestSettings$/^(rows|node|metrics|exec|foreign_writer|resize|static_pod|faults)$|^TestBurst$"},
		{name: "systemd", driver: kubepods.Systemd, tests: "^(TestReload|TestBatch)$"},
		{name: "crun", driver: kubepods.Systemd, runtime: "/usr/bin/crun", tests: "^TestSettings$/^(rows|throttling|foreign_writer|resize)$|^TestIdle$"},
	}
}

// TestNode runs tests of test/node on machines with cgroup version 2, with each of the kubelet's
// cgroup drivers, and with crun.
func TestNode(t *testing.T) {
	kernel, root := userMode(t)
	repository := must.Get(filepath.Abs(repository))(t)
	if _, err := os.Stat(filepath.Join(repository, "bin/node/kubelet")); err != nil {
		t.Skipf("%v: build the programs of a node with \"make build-node\" to run this test", err)
	}
	l := lab{kernel: kernel, dir: t.TempDir()}
	l.compile(t, []string{"build", "-o", l.path("init"), "./test/vm/guest/init"},
		[]string{"build", "-o", l.path("pinfold-local"), "./cmd/pinfold-local"},
		[]string{"build", "-o", l.path("pinfold-agent"), "./cmd/pinfold-agent"},
		[]string{"test", "-c", "-o", l.path("node.test"), "./test/node"},
		[]string{"test", "-c", "-o", l.path("sampler.test"), "./linux/sampler"})
	if asked := os.Getenv(nodeTestsEnv); asked != "" && regexp.MustCompile(asked).MatchString("TestOperations") {
		l.buildForOperations(t)
	}
	for _, v := range nodeVariants() {
		t.Run(v.name, func(t *testing.T) {
			programs := []guest.Program{{Name: "node", Path: programsDir + "/node.test", Dir: repositoryDir + "/test/node", Timeout: nodeTimeout + time.Minute,
				Args: []string{"-test.run=" + cmp.Or(os.Getenv(nodeTestsEnv), v.tests), "-test.v=test2json", "-test.timeout=" + nodeTimeout.String()},
				// Threads of one process never run at the same time there. An API server that used some
				// 470 MB made no more progress, in each of four runs.
				Env: []string{"PINFOLD_TEST_PROGRAMS=" + programsDir, "PINFOLD_TEST_CGROUP_DRIVER=" + v.driver.String(),
					"PINFOLD_TEST_OCI_RUNTIME=" + v.runtime,
					"PINFOLD_TEST_IMAGES=" + programsDir + "/images",
					"GOMAXPROCS=1", "GOGC=400", "GOMEMLIMIT=256MiB", "GODEBUG=asyncpreemptoff=1"}}}
			if v.driver == kubepods.Cgroupfs { // the controllers are the same with systemd
				programs = append(programs, guest.Program{Name: "sampler", Path: programsDir + "/sampler.test", Timeout: programTimeout,
					Args: []string{"-test.run=^TestCostOnThisMachine$", "-test.v=test2json"}})
			}
			m := Machine{Shape: Shape{Packages: 1, Dies: 1, Cores: 2, Threads: 1}, Kernel: l.kernel, Init: l.path("init"),
				Programs: programs,
				System: &guest.System{Root: root, Systemd: v.driver == kubepods.Systemd,
					Shares: map[string]string{repositoryDir: repository, programsDir: l.dir}}}
			ctx, cancel := context.WithTimeout(t.Context(), nodeTimeout+bootTimeout)
			defer cancel()
			started := time.Now()
			ran, err := m.Run(ctx, t.TempDir())
			t.Logf("the guest ran for %v", time.Since(started).Round(time.Second/10))
			if err != nil {
				t.Errorf("%v", err) // the results so far are still useful
			}
			for _, p := range programs {
				replayed(t, p.Name, ran)
			}
		})
	}
}

// buildForOperations builds what TestOperations needs besides, and would build itself elsewhere.
func (l lab) buildForOperations(t *testing.T) {
	t.Helper()
	l.compile(t, []string{"build", "-o", l.path("pinfold"), "./cmd/pinfold"},
		[]string{"build", "-o", l.path("kubectl"), "k8s.io/kubernetes/cmd/kubectl"})
	for version, tag := range map[string]string{"first": "", "next": "next"} {
		run(t, "make", "images", "REGISTRY=", "TAG="+tag, "PLATFORMS=linux/amd64", "IMAGES="+l.path("images/"+version))
	}
}
