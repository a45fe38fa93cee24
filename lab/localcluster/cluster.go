package localcluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"pinfold.dev/pinfold/lab/localnode"
	"pinfold.dev/pinfold/lab/supervisor"
)

// Cluster is a running control plane. Stop it in the end.
type Cluster struct {
	config     Config
	layout     layout
	lock       *directoryLock
	ports      map[string]*reservedPort // by component
	admin      *rest.Config
	node       *localnode.Node // nil: only simulated ones
	supervisor *supervisor.Supervisor
	failed     chan error
	// exportedInto are the directories that were made for Config.ExportKubeconfig, the innermost first.
	exportedInto []string

	mu      sync.Mutex                   // also keeps the writes of the state apart
	running map[string]*supervisor.Child // by component; the last one where it was started again
	current string                       // what Start is doing
	ready   bool
	problem error
}

// Start brings a control plane up and returns when the API is served, pods can
// be created and scheduled, and Config.Populate is done. The context bounds the start only.
//
// When a component does not come up, the data directory stays for its logs, and
// the error contains the end of the log that matters.
func Start(ctx context.Context, config Config) (*Cluster, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Cluster{
		config:  config,
		layout:  layout{config.Dir},
		ports:   map[string]*reservedPort{},
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
		if ctx.Err() != nil { // what ended the start explains more than what it interrupted
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

// step announces what comes next, to the caller and to those who watch the
// state.
func (c *Cluster) step(what string) {
	c.config.Progress(what)
	c.mu.Lock()
	c.current = what
	c.mu.Unlock()
	c.stateChanged()
}

// launch starts the components, each when what it needs is there.
func (c *Cluster) launch(ctx context.Context) error {
	c.step("starting etcd and kube-apiserver")
	probe, err := rest.HTTPClientFor(c.admin)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	etcd := c.run(Etcd, etcdFlags(c.layout), supervisor.Accepts(filepath.Join(c.layout.dir, socketName)))
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
	manager := c.run(ControllerManager, controllerManagerFlags(c.layout, c.ports[ControllerManager].number),
		c.answers(probe, ControllerManager, "healthz"))
	if err := createGrants(ctx, client); err != nil {
		return err
	}
	c.run(KWOK, kwokFlags(c.layout), nil)
	if err := c.config.Install(ctx, c.RESTConfig()); err != nil {
		return err
	}
	scheduler := c.run(Scheduler, schedulerFlags(c.layout, c.ports[Scheduler].number),
		c.answers(probe, Scheduler, "readyz"))
	for _, child := range []*supervisor.Child{manager, scheduler} {
		if err := child.WaitReady(ctx); err != nil {
			return err
		}
	}
	if err := waitForServiceAccount(ctx, client); err != nil {
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

// watch passes on that the supervisor gave up on a component.
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

// URL returns where a component of Kubernetes serves: the API, or its metrics,
// health and profiles.
func (c *Cluster) URL(component string) string {
	return fmt.Sprintf("https://127.0.0.1:%d", c.ports[component].number)
}

// Failed delivers the reason when a component cannot be kept running. The rest
// of the cluster runs on until Stop.
func (c *Cluster) Failed() <-chan error { return c.failed }

// Stop ends the cluster and removes what it left on disk, except when
// Config.KeepData asks to leave it, or when a component failed and its log is
// wanted.
func (c *Cluster) Stop() error {
	c.supervisor.Close()
	for _, port := range c.ports {
		port.release()
	}
	if c.lock == nil { // the directory is somebody else's
		return nil
	}
	defer c.lock.release()
	var withdrawal error
	if c.config.ExportKubeconfig != "" && c.ports[APIServer] != nil {
		withdrawal = withdrawKubeconfig(c.config.ExportKubeconfig, c.URL(APIServer))
		for _, dir := range c.exportedInto {
			_ = os.Remove(dir) // refused where something else is in it
		}
	}
	restored := localnode.Restore(c.layout.path(nodeDirName), c.config.Logger)
	if c.node != nil {
		c.node.Release()
	}
	c.mu.Lock()
	c.ready = false
	keep := c.config.KeepData || c.problem != nil || restored != nil
	c.mu.Unlock()
	if keep {
		return errors.Join(withdrawal, restored, c.saveState())
	}
	return errors.Join(withdrawal, c.layout.remove(c.config.Logger))
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
		Kubeconfig: c.Kubeconfig(),
		Components: c.supervisor.Snapshot(),
	}
	if c.ports[APIServer] != nil {
		state.Server = c.URL(APIServer)
	}
	if c.problem != nil {
		state.Problem = c.problem.Error()
	}
	return c.layout.writeState(state)
}
