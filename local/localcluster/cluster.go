package localcluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"pinfold.dev/pinfold/local/localnode"
	"pinfold.dev/pinfold/local/supervisor"
)

// Cluster is a running control plane. Stop ends it.
type Cluster struct {
	config     Config
	layout     layout
	lock       *directoryLock
	ports      map[string]*ReservedPort // by component
	admin      *rest.Config
	node       *localnode.Node // nil without a real node
	supervisor *supervisor.Supervisor
	failed     chan error

	mu      sync.Mutex                   // also serializes the writes of the state
	running map[string]*supervisor.Child // by component; the latest child of each
	current string                       // current step of Start
	ready   bool
	problem error
}

// Start starts a control plane. It returns when the API is served, pods can be created and
// scheduled, and Config.Populate has returned. ctx applies to the start only.
//
// If a component does not become ready, the data directory is kept for its logs, and the error
// contains the end of the component's log.
func Start(ctx context.Context, config Config) (*Cluster, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Cluster{
		config:  config,
		layout:  layout{config.Dir},
		ports:   map[string]*ReservedPort{},
		failed:  make(chan error, 1),
		running: map[string]*supervisor.Child{},
	}
	c.supervisor = supervisor.New(supervisor.Options{Logger: config.Logger, Changed: c.stateChanged})
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

func (c *Cluster) start(caller context.Context) error {
	if err := c.prepare(); err != nil {
		return err
	}
	ctx, cancelTimeout := context.WithTimeoutCause(caller, startTimeout,
		fmt.Errorf("the control plane took longer than %v to start", startTimeout))
	defer cancelTimeout()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go c.watch(cancel)
	if err := c.launch(ctx); err != nil {
		if ctx.Err() != nil { // its cause explains more than the step that it interrupted
			err = context.Cause(ctx)
		}
		if caller.Err() == nil {
			c.setProblem(err)
		}
		return err
	}
	c.mu.Lock()
	c.ready, c.current = true, ""
	c.mu.Unlock()
	return c.saveState()
}

// step reports the next step to the caller and in the state.
func (c *Cluster) step(what string) {
	c.config.Progress(what)
	c.mu.Lock()
	c.current = what
	c.mu.Unlock()
	c.stateChanged()
}

// launch starts each component when the components that it needs are ready.
func (c *Cluster) launch(ctx context.Context) error {
	c.step("starting etcd and kube-apiserver")
	probe, err := rest.HTTPClientFor(c.admin)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	etcd := c.run(Etcd, nil, supervisor.Accepts(c.layout.path(EtcdSocket)))
	if err := etcd.WaitReady(ctx); err != nil {
		return err
	}
	api := c.run(APIServer, c.apiServerFlags(), c.answers(probe, APIServer, "readyz"))
	if err := api.WaitReady(ctx); err != nil {
		return err
	}
	c.step("starting kube-controller-manager, kwok and the scheduler")
	client, err := kubernetes.NewForConfig(c.admin)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	manager := c.run(ControllerManager, c.controllerManagerFlags(), c.answers(probe, ControllerManager, "healthz"))
	if err := createGrants(ctx, c.admin, c.config.Stock); err != nil {
		return err
	}
	c.run(KWOK, kwokFlags(c.layout), nil)
	if err := c.config.Install(ctx, c.RESTConfig()); err != nil {
		return err
	}
	if !c.config.Stock {
		c.run(Agents, agentsFlags(c.layout), nil)
	}
	scheduler := c.run(Scheduler, c.schedulerFlags(), c.answers(probe, Scheduler, "readyz"))
	for _, child := range []*supervisor.Child{manager, scheduler} {
		if err := child.WaitReady(ctx); err != nil {
			return err
		}
	}
	return c.fill(ctx, client)
}

// fill creates the nodes.
func (c *Cluster) fill(ctx context.Context, client kubernetes.Interface) error {
	// Until it exists, admission rejects pods in the default namespace.
	err := localnode.AwaitExists(ctx, "the default service account", func() error {
		_, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	if err != nil {
		return err
	}
	if c.node != nil {
		if err := c.startNode(ctx, client); err != nil {
			return err
		}
	}
	c.step("creating the nodes")
	return c.config.Populate(ctx, c.RESTConfig())
}

// run starts a component of the multi-call executable.
func (c *Cluster) run(name string, flags []string, ready func(context.Context) error) *supervisor.Child {
	return c.startChild(supervisor.Spec{
		Name:  name,
		Path:  c.config.Executable,
		Args:  append([]string{"component", name}, flags...),
		Dir:   c.layout.dir,
		Env:   c.environment(),
		Log:   c.layout.log(name),
		Ready: ready,
	})
}

func (c *Cluster) startChild(spec supervisor.Spec) *supervisor.Child {
	c.mu.Lock()
	defer c.mu.Unlock()
	child := c.supervisor.Start(spec)
	c.running[spec.Name] = child
	return child
}

func (c *Cluster) answers(client *http.Client, component, path string) func(context.Context) error {
	return supervisor.Answers(client, c.URL(component)+"/"+path)
}

// watch waits until the supervisor gives up on a component, and reports that.
func (c *Cluster) watch(cancelStart context.CancelCauseFunc) {
	err, ok := <-c.supervisor.Failed()
	if !ok {
		return
	}
	c.setProblem(err)
	cancelStart(err)
	c.failed <- err
}

// Kubeconfig returns the path of the administrator's kubeconfig.
func (c *Cluster) Kubeconfig() string { return c.layout.path(kubeconfigName) }

// RESTConfig returns a client configuration for the administrator.
func (c *Cluster) RESTConfig() *rest.Config { return rest.CopyConfig(c.admin) }

// URL returns the URL of a component of Kubernetes: of the API, or of its metrics, health and
// profiles.
func (c *Cluster) URL(component string) string {
	return fmt.Sprintf("https://127.0.0.1:%d", c.ports[component].Number)
}

// Failed delivers the reason when a component cannot be kept running. The other components run
// until Stop.
func (c *Cluster) Failed() <-chan error { return c.failed }

// Stop ends the cluster. It removes the data directory unless Config.KeepData is set, the start or
// a component has failed, or what a real node changed on this machine could not be restored.
func (c *Cluster) Stop() error {
	c.supervisor.Close()
	for _, port := range c.ports {
		port.Release()
	}
	if c.lock == nil { // the directory does not belong to this cluster
		return nil
	}
	defer c.lock.release()
	restored := localnode.Restore(c.layout.path(nodeDirName), c.config.Logger)
	if c.node != nil {
		c.node.Release()
	}
	c.mu.Lock()
	c.ready = false
	keep := c.config.KeepData || c.problem != nil || restored != nil
	c.mu.Unlock()
	if keep {
		return errors.Join(restored, c.saveState())
	}
	return c.layout.remove(c.config.Logger)
}

func (c *Cluster) setProblem(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.problem == nil {
		c.problem = err
	}
}

func (c *Cluster) stateChanged() {
	if err := c.saveState(); err != nil {
		c.config.Logger.Error("state not saved", "error", err)
	}
}

func (c *Cluster) saveState() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	state := State{
		Supervisor: os.Getpid(),
		Ready:      c.ready,
		Step:       c.current,
		Kubernetes: c.config.Kubernetes,
		Kubeconfig: c.Kubeconfig(),
		Components: c.supervisor.Snapshot(),
	}
	if c.ports[APIServer] != nil {
		state.Server = c.URL(APIServer)
	}
	if c.problem != nil {
		state.Problem = c.problem.Error()
	}
	text, err := json.MarshalIndent(state, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the state: %w", err)
	}
	return writeFile(c.layout.path(stateName), append(text, '\n'))
}
