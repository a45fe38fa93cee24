package cluster

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/kube/versions"
	"pinfold.dev/pinfold/lab/localcluster"
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

// The build may have to compile Kubernetes, which takes minutes on a small machine.
const (
	buildTimeout = 25 * time.Minute
	startTimeout = 3 * time.Minute
)

// shared is the cluster for all tests of this program. [TestVersions] replaces it for a time.
var shared *running

// kubernetesVariable is the minor version of Kubernetes that the cluster's control plane emulates.
const kubernetesVariable = "PINFOLD_TEST_KUBERNETES"

func TestMain(m *testing.M) {
	if options := os.Getenv(agentVariable); options != "" {
		fmt.Fprintln(os.Stderr, runAgentProcess(options))
		os.Exit(1)
	}
	// The cluster is terminated when the thread that started it ends, so this must be the program's
	// main thread. So nothing survives the program, however it ends.
	runtime.LockOSThread()
	status, err := runTests(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	os.Exit(status)
}

func runTests(m *testing.M) (status int, err error) {
	dir, err := os.MkdirTemp("", "pinfold-cluster-test-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	binary := filepath.Join(dir, "pinfold-local")
	if err := build(binary, "pinfold.dev/pinfold/cmd/pinfold-local"); err != nil {
		return 0, err
	}
	cluster, stop, err := start(binary, filepath.Join(dir, "data"), cmp.Or(os.Getenv(kubernetesVariable), versions.Newest().String()))
	if err != nil {
		return 0, err
	}
	shared = cluster
	defer func() { err = errors.Join(err, stop()) }()
	return m.Run(), nil
}

// build builds a command of this module, or, with -C, of another one.
func build(binary string, pkg ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), buildTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, "go", slices.Concat([]string{"build"}, pkg[:len(pkg)-1], []string{"-trimpath", "-o", binary, pkg[len(pkg)-1]})...)
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg[len(pkg)-1], err, out)
	}
	return nil
}

// start runs a cluster as a child process and waits until it is ready.
func start(binary, data, kubernetes string, gates ...string) (cluster *running, stop func() error, err error) {
	args := []string{"up", "--data-dir", data, "--kubernetes", kubernetes}
	for _, gate := range gates {
		args = append(args, "--feature-gates="+gate+"=true")
	}
	for _, shape := range shapes {
		args = append(args, "--nodes", shape)
	}
	command := exec.Command(binary, args...)
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	if err := command.Start(); err != nil {
		return nil, nil, fmt.Errorf("start a local cluster: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	stop = func() error {
		if err := command.Process.Signal(syscall.SIGTERM); err != nil {
			return fmt.Errorf("stop the local cluster: %w", err)
		}
		select {
		case err := <-ended:
			if err != nil {
				return fmt.Errorf("the local cluster failed at its end: %w\n%s", err, out.String())
			}
			return nil
		case <-time.After(30 * time.Second):
			return errors.Join(errors.New("the local cluster does not stop"), command.Process.Kill())
		}
	}
	for deadline := time.Now().Add(startTimeout); ; time.Sleep(100 * time.Millisecond) {
		state, err := localcluster.ReadState(data)
		if err == nil && state.Ready {
			cluster, err := connect(binary, data, state.Kubeconfig)
			return cluster, stop, err
		}
		select {
		case err := <-ended:
			return nil, nil, fmt.Errorf("the local cluster ended: %w\n%s", err, out.String())
		default:
		}
		if time.Now().After(deadline) {
			return nil, nil, errors.Join(fmt.Errorf("the local cluster is not ready after %v: %w", startTimeout, err), stop())
		}
	}
}

// running is a running cluster.
type running struct {
	binary     string // pinfold-local
	dir        string
	config     *rest.Config
	client     kubernetes.Interface
	objects    dynamic.Interface
	topologies nodetopology.Client
}

func connect(binary, dir, kubeconfig string) (*running, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	config.QPS, config.Burst = 1000, 1000
	return connectAs(binary, dir, config)
}

// connectAs connects with the rights of a configuration.
func connectAs(binary, dir string, config *rest.Config) (r *running, err error) {
	r = &running{binary: binary, dir: dir, config: config}
	if r.client, err = kubernetes.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("create a client: %w", err)
	}
	if r.objects, err = dynamic.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("create a client: %w", err)
	}
	if r.topologies, err = nodetopology.NewClient(config); err != nil {
		return nil, fmt.Errorf("create a client: %w", err)
	}
	return r, nil
}
