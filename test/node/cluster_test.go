package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"pinfold.dev/pinfold/lab/localcluster"
	"pinfold.dev/pinfold/lab/localnode"
	"pinfold.dev/pinfold/linux/kubepods"
	"pinfold.dev/pinfold/linux/owned"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/vm/guest"
)

// buildTimeout allows for a first build, which compiles Kubernetes.
const buildTimeout = 25 * time.Minute

// Timeouts, longer in a virtual machine.
var (
	startTimeout = inGuest(9*time.Minute, 3*time.Minute)
	waitTimeout  = inGuest(5*time.Minute, 2*time.Minute) // kube-apiserver is restarted, maybe twice, as it gives itself a minute
)

// inGuest returns one value in a virtual machine of test/vm, and the other one elsewhere.
func inGuest[T any](there, elsewhere T) T {
	if os.Getenv(guest.Env) != "" {
		return there
	}
	return elsewhere
}

// binaries is the directory in which "make build-node" puts the node's programs.
const binaries = "../../bin/node"

// requireNode skips the test if this machine cannot be a node.
func requireNode(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: a kubelet creates cgroups, mounts and network namespaces")
	}
	if err := localnode.Missing(binaries); err != nil {
		t.Skipf("needs the programs of a node: %v", err)
	}
}

// The environment variables of a directory with the commands, which are built otherwise, of the
// node's cgroup driver, and of an OCI runtime in place of runc.
const (
	programsEnv = "PINFOLD_TEST_PROGRAMS"
	driverEnv   = "PINFOLD_TEST_CGROUP_DRIVER"
	runtimeEnv  = "PINFOLD_TEST_OCI_RUNTIME"
)

// temporary is a directory for the tests of this program, and programs that of the commands after
// the build. Names of the former begin with temporaryName, and while the program runs a file in it is
// locked.
var (
	temporary, programs string
	temporaryLock       *os.File
)

const temporaryName, lockName = "pinfold-node-test-", "lock"

// build builds the commands once for all tests of this program, and restores the machine after
// programs that were killed.
var build = sync.OnceValue(func() (err error) {
	if temporary, err = os.MkdirTemp("", temporaryName); err != nil {
		return err
	}
	if temporaryLock, err = owned.Lock(filepath.Join(temporary, lockName)); err != nil {
		return err
	}
	if programs = os.Getenv(programsEnv); programs == "" {
		if err := compile(); err != nil {
			return err
		}
	}
	return restore()
})

// compile builds the commands in the temporary directory.
func compile() error {
	programs = temporary
	ctx, cancel := context.WithTimeout(context.Background(), buildTimeout)
	defer cancel()
	version, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes").Output()
	if err != nil {
		return fmt.Errorf("find the version of Kubernetes: %w", err)
	}
	// Without it, the API server reports no version, and no chart can be installed.
	stamp := "-X k8s.io/component-base/version.gitVersion=" + strings.TrimSpace(string(version))
	command := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", stamp, "-o", programs, "../../cmd/pinfold-local", "../../cmd/pinfold-agent",
		"../../cmd/pinfold", "../../cmd/pinfold-lab", "k8s.io/kubernetes/cmd/kubectl")
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, text)
	}
	return nil
}

// restore takes down the clusters of test programs that were killed, because a machine can be a node of
// one cluster only.
func restore() error {
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), temporaryName+"*"))
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		held, err := owned.Lock(filepath.Join(dir, lockName))
		if err != nil {
			continue // its program runs
		}
		text, err := exec.Command(filepath.Join(programs, "pinfold-local"), "down", "--data-dir", filepath.Join(dir, "data")).CombinedOutput()
		if err != nil {
			return fmt.Errorf("take down the cluster of a test that was killed: %w\n%s", err, text)
		}
		if err := errors.Join(os.RemoveAll(dir), held.Close()); err != nil {
			return err
		}
	}
	return nil
}

// prepare builds the commands and returns the directory of the node's programs.
func prepare(t testing.TB) string {
	t.Helper()
	if err := build(); err != nil {
		t.Fatalf("build the commands: %v", err)
	}
	dir := must.Get(filepath.Abs(binaries))(t)
	if other := os.Getenv(runtimeEnv); other != "" {
		dir = withRuntime(t, dir, other)
	}
	return dir
}

// withRuntime returns a directory of links to the node's programs, with another OCI runtime as runc.
func withRuntime(t testing.TB, dir, runtime string) string {
	t.Helper()
	links := t.TempDir()
	for _, entry := range must.Get(os.ReadDir(dir))(t) {
		target := filepath.Join(dir, entry.Name())
		if entry.Name() == "runc" {
			target = runtime
		}
		must.Do(t, os.Symlink(target, filepath.Join(links, entry.Name())))
	}
	return links
}

func TestMain(m *testing.M) {
	// A cluster is terminated when the thread that started it ends, so this must be the program's
	// main thread. So nothing survives the program, however it ends.
	runtime.LockOSThread()
	status := m.Run()
	// A node that could not be restored needs its directory for another attempt.
	if _, err := os.Stat(filepath.Join(temporary, "data", "node")); temporary != "" && err != nil {
		_ = os.RemoveAll(temporary) // of a temporary directory
	}
	os.Exit(status)
}

// cluster is a local cluster with this machine as a node, in a separate process.
type cluster struct {
	program, dir string
	command      *exec.Cmd
	ended        chan struct{} // closed when the process has ended
	client       kubernetes.Interface
	chart        *installed // nil: Pinfold's components are processes of the cluster
}

// start starts a cluster with Pinfold.
func start(t testing.TB, agentFlags ...string) *cluster {
	t.Helper()
	args := []string{"--nodes", "intel-104"}
	for _, flag := range agentFlags {
		args = append(args, "--agent-flag="+flag)
	}
	return startWith(t, args...)
}

// startWith starts a cluster with more arguments of "pinfold-local up --node".
func startWith(t testing.TB, args ...string) *cluster {
	t.Helper()
	nodePrograms := prepare(t)
	c := &cluster{program: filepath.Join(programs, "pinfold-local"), dir: filepath.Join(temporary, "data")}
	c.command = exec.Command(c.program, "up", "--node", "--node-binaries", nodePrograms, "--data-dir", c.dir,
		"--cgroup-driver", naming().Driver.String())
	c.command.Args = append(c.command.Args, args...)
	var out bytes.Buffer
	c.command.Stdout, c.command.Stderr = &out, &out
	must.Do(t, c.command.Start())
	c.ended = make(chan struct{})
	go func() { _ = c.command.Wait(); close(c.ended) }() // its output is in out
	t.Cleanup(func() { c.down(t) })                      // no effect after a complete test
	for deadline := time.Now().Add(startTimeout); ; time.Sleep(inGuest(500*time.Millisecond, 100*time.Millisecond)) {
		state, err := localcluster.ReadState(c.dir)
		if err == nil && state.Ready {
			c.client = must.Get(kubernetes.NewForConfig(connection(t, state.Kubeconfig)))(t)
			return c
		}
		select {
		case <-c.ended:
			t.Fatalf("the cluster ended: %v\n%s", err, out.String())
		default:
		}
		if time.Now().After(deadline) {
			_ = c.command.Process.Kill() // ends the output; the cleanup restores the machine
			<-c.ended
			t.Fatalf("the cluster is not ready after %v: %v\n%s", startTimeout, err, out.String())
		}
	}
}

// naming returns the names of the node's cgroups.
func naming() kubepods.Naming {
	n := kubepods.Naming{Driver: kubepods.Cgroupfs}
	if text := os.Getenv(driverEnv); text != "" {
		var err error
		if n.Driver, err = kubepods.ParseDriver(text); err != nil {
			panic(fmt.Sprintf("%s: %v", driverEnv, err))
		}
	}
	return n
}

// kill kills the supervisor, so that it cannot restore anything.
func (c *cluster) kill(t testing.TB) {
	t.Helper()
	must.Do(t, c.command.Process.Kill())
	<-c.ended
}

// down runs the command down.
func (c *cluster) down(t testing.TB) {
	t.Helper()
	if text, err := exec.Command(c.program, "down", "--data-dir", c.dir).CombinedOutput(); err != nil {
		t.Errorf("down: %v\n%s", err, text)
	}
	<-c.ended
}

// eventually repeats a check until it succeeds.
func eventually(t testing.TB, what string, ask func() error) {
	t.Helper()
	for deadline := time.Now().Add(waitTimeout); ; time.Sleep(inGuest(300*time.Millisecond, 50*time.Millisecond)) {
		err := ask()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// as returns a client with the credentials of a component.
func (c *cluster) as(t testing.TB, component string) kubernetes.Interface {
	t.Helper()
	return must.Get(kubernetes.NewForConfig(connection(t, filepath.Join(c.dir, "config", component+".kubeconfig"))))(t)
}

// connection returns the configuration of a client that does not limit its own requests.
func connection(t testing.TB, kubeconfig string) *rest.Config {
	t.Helper()
	config := must.Get(clientcmd.BuildConfigFromFlags("", kubeconfig))(t)
	config.QPS = -1
	config.Timeout = waitTimeout
	return config
}
