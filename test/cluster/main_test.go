package cluster

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/kube/nodetopology/apiclient"
	"pinfold.dev/pinfold/kube/scheduler"
	"pinfold.dev/pinfold/kube/versions"
	"pinfold.dev/pinfold/local/localcluster"
	"pinfold.dev/pinfold/test/need"
	"pinfold.dev/pinfold/test/wait"
)

// The nodes of the cluster: the two machines of the published measurements and two small ones with
// 4 cores of 2 threads.
const (
	intel  = "intel-104-0"
	amd    = "amd-256-0"
	small0 = "p1n1l1c4t2-0"
	small1 = "p1n1l1c4t2-1"
)

var shapes = []string{"intel-104", "amd-256", "packages:1,cores:4,threads:2=2"}

// kubernetesVariable is the minor version of Kubernetes that the cluster's control plane emulates.
const kubernetesVariable = "PINFOLD_TEST_KUBERNETES"

// temporary is the directory of the shared cluster.
var temporary string

func TestMain(m *testing.M) {
	if options := os.Getenv(agentVariable); options != "" {
		fmt.Fprintln(os.Stderr, runAgentProcess(options))
		os.Exit(1)
	}
	status := m.Run()
	if err := finish(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	os.Exit(status)
}

// shared starts the cluster for all tests of this program that need no other one.
var shared = sync.OnceValues(func() (r *running, err error) {
	if temporary, err = os.MkdirTemp("", "pinfold-cluster-test-"); err != nil {
		return nil, err
	}
	r, err = launch(filepath.Join(temporary, "data"), cmp.Or(os.Getenv(kubernetesVariable), versions.Newest().String()))
	if err != nil {
		return nil, err
	}
	return r, r.await()
})

// finish stops the shared cluster, if a test has started it.
func finish() error {
	if temporary == "" {
		return nil
	}
	r, err := shared()
	if err == nil {
		err = r.stop()
	}
	return errors.Join(err, os.RemoveAll(temporary))
}

// outside reports the end of a wait that belongs to no test.
type outside struct{ err error }

func (*outside) Helper() {}

func (o *outside) Fatalf(format string, args ...any) { o.err = fmt.Errorf(format, args...) }

// running is a running cluster.
type running struct {
	binary     string // pinfold-local
	dir        string
	config     *rest.Config
	client     kubernetes.Interface
	objects    dynamic.Interface
	topologies nodetopology.Client

	command *exec.Cmd
	ended   chan struct{} // closed when the command has ended
	out     bytes.Buffer  // of the command, to be read then
}

// launch starts a cluster as a child process. It ends with the thread that started it, and so with
// this process, however that ends: Go keeps its threads.
func launch(data, kubernetes string, gates ...string) (*running, error) {
	binary, err := need.Program("pinfold-local")
	if err != nil {
		return nil, err
	}
	config := data + "-scheduler.yaml"
	text := strings.Replace(scheduler.DefaultConfiguration, "agentGracePeriod: 2m", "agentGracePeriod: 20s", 1) // TestSilentAgent waits for it
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	args := []string{"up", "--data-dir", data, "--kubernetes", kubernetes, "--scheduler-config", config}
	for _, gate := range gates {
		args = append(args, "--feature-gates="+gate+"=true")
	}
	for _, shape := range shapes {
		args = append(args, "--nodes", shape)
	}
	r := &running{binary: binary, dir: data, command: exec.Command(binary, args...), ended: make(chan struct{})}
	r.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	r.command.Stdout, r.command.Stderr = &r.out, &r.out
	if err := r.command.Start(); err != nil {
		return nil, fmt.Errorf("start a local cluster: %w", err)
	}
	go func() { _ = r.command.Wait(); close(r.ended) }()
	return r, nil
}

// await waits until the cluster is ready, and connects to it.
func (r *running) await() error {
	failed := &outside{}
	var state localcluster.State
	wait.Until(failed, "the local cluster is ready", func() (err error) {
		select {
		case <-r.ended: // what follows does not change that
			return nil
		default:
		}
		if state, err = localcluster.ReadState(r.dir); err == nil && !state.Ready {
			err = fmt.Errorf("%s: %+v", state.Step, state.Components)
		}
		return err
	}, func() string { return wait.CPUTime(pidOf(state, localcluster.APIServer))() })
	if failed.err == nil && !state.Ready {
		failed.err = errors.New("the local cluster has ended")
	}
	if failed.err != nil {
		return errors.Join(failed.err, r.stop())
	}
	config, err := clientcmd.BuildConfigFromFlags("", state.Kubeconfig)
	if err != nil {
		return errors.Join(err, r.stop())
	}
	config.QPS, config.Burst = 1000, 1000
	return r.connect(config)
}

func pidOf(state localcluster.State, component string) int {
	found, _ := state.Component(component)
	return found.PID
}

// stop ends the cluster. Its own limits are those of its components, so this waits as long as it takes.
func (r *running) stop() error {
	_ = r.command.Process.Signal(syscall.SIGTERM) // it may have ended
	<-r.ended
	if !r.command.ProcessState.Success() {
		return fmt.Errorf("the local cluster: %v\n%s", r.command.ProcessState, r.out.String())
	}
	return nil
}

// connect connects with the rights of a configuration.
func (r *running) connect(config *rest.Config) (err error) {
	r.config = config
	if r.client, err = kubernetes.NewForConfig(config); err != nil {
		return fmt.Errorf("create a client: %w", err)
	}
	if r.objects, err = dynamic.NewForConfig(config); err != nil {
		return fmt.Errorf("create a client: %w", err)
	}
	if r.topologies, err = apiclient.New(config); err != nil {
		return fmt.Errorf("create a client: %w", err)
	}
	return nil
}
