package node

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"pinfold.dev/pinfold/linux/kubepods"
	"pinfold.dev/pinfold/local/localcluster"
	"pinfold.dev/pinfold/local/localnode"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/need"
	"pinfold.dev/pinfold/test/vm/guest"
	"pinfold.dev/pinfold/test/wait"
)

// requestTimeout ends requests that hang. kube-apiserver is restarted, maybe twice, as it gives itself
// a minute, and is slow in a virtual machine.
const requestTimeout = 5 * time.Minute

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
	need.This(t, "a real node")
	if os.Geteuid() != 0 {
		t.Skip("needs root: a kubelet creates cgroups, mounts and network namespaces")
	}
	if err := localnode.Missing(binaries); err != nil {
		t.Skipf("needs the programs of a node: %v", err)
	}
	if err := occupied(); err != nil {
		if logged.Swap(true) {
			t.Skip("this machine is a node already")
		}
		t.Fatalf("machine: %v", err)
	}
}

// occupied returns an error if this machine was a node when the first test began. It is told once.
var (
	occupied = sync.OnceValue(localnode.Occupied)
	logged   atomic.Bool
)

// driverEnv is the environment variable of the node's cgroup driver.
const driverEnv = "PINFOLD_TEST_CGROUP_DRIVER"

// temporary is a directory for the tests of this program.
var temporary = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "pinfold-node-test-") })

func temporaryDir(t testing.TB) string {
	t.Helper()
	return must.Get(temporary())(t)
}

// program returns the path of a command.
func program(t testing.TB, name string) string {
	t.Helper()
	if name == "pinfold-local" { // expects the agent beside it
		must.Get(need.Program("pinfold-agent"))(t)
	}
	return must.Get(need.Program(name))(t)
}

func TestMain(m *testing.M) {
	// A cluster is terminated when the thread that started it ends, so this must be the program's
	// main thread. So nothing survives the program, however it ends.
	runtime.LockOSThread()
	status := m.Run()
	// A node that could not be restored needs its directory for another attempt.
	if dir, err := temporary(); err == nil {
		if _, err := os.Stat(filepath.Join(dir, "data", "node")); err != nil {
			_ = os.RemoveAll(dir) // of temporary files
		}
	}
	os.Exit(status)
}

// cluster is a local cluster with this machine as a node, in a separate process.
type cluster struct {
	program, dir string
	command      *exec.Cmd
	ended        chan struct{} // closed when the process has ended
	out          bytes.Buffer  // of the process; not to be read before it has ended
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
	c := &cluster{program: program(t, "pinfold-local"), dir: filepath.Join(temporaryDir(t), "data")}
	c.command = exec.Command(c.program, "up", "--node", "--node-binaries", must.Get(filepath.Abs(binaries))(t), "--data-dir", c.dir,
		"--cgroup-driver", naming().Driver.String())
	c.command.Args = append(c.command.Args, args...)
	c.command.Stdout, c.command.Stderr = &c.out, &c.out
	must.Do(t, c.command.Start())
	c.ended = make(chan struct{})
	go func() { _ = c.command.Wait(); close(c.ended) }() // its output is in out
	t.Cleanup(func() { c.down(t) })                      // no effect after a complete test
	eventually(t, "the cluster starts", func() error {
		select {
		case <-c.ended:
			if strings.Contains(c.out.String(), "address already in use") {
				t.Fatalf("machine: the cluster ended: %s", c.out.String())
			}
			t.Fatalf("the cluster ended: %s", c.out.String())
		default:
		}
		state, err := localcluster.ReadState(c.dir)
		if err == nil && !state.Ready {
			err = fmt.Errorf("%+v", state)
		}
		if err == nil {
			c.client = must.Get(kubernetes.NewForConfig(connection(t, state.Kubeconfig)))(t)
		}
		return err
	}, c.cpuTime)
	return c
}

// cpuTime is the progress of a cluster that starts: the CPU time of its components.
func (c *cluster) cpuTime() (all string) {
	state, _ := localcluster.ReadState(c.dir)
	for _, component := range state.Components {
		all += wait.CPUTime(component.PID)() + " "
	}
	return all
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
	text, err := exec.Command(c.program, "down", "--data-dir", c.dir).CombinedOutput()
	<-c.ended
	if err != nil {
		t.Errorf("down: %v\n%s\nthe cluster:\n%s", err, text, c.out.String())
	}
}

// eventually waits until a check succeeds. In a virtual machine, checks are requests to servers that
// share a CPU with what is waited for.
func eventually(t testing.TB, what string, check func() error, progress ...wait.Progress) {
	t.Helper()
	wait.Until(t, what, func() error {
		err := check()
		if err != nil {
			time.Sleep(inGuest(300*time.Millisecond, 0))
		}
		return err
	}, progress...)
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
	config.Timeout = requestTimeout
	return config
}
