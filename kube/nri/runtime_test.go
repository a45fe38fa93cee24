package nri

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	nrilog "github.com/containerd/nri/pkg/log"

	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/wait"
)

// testTimeout replaces the runtime's 2 s, so that no handler is late on a busy machine; slowTimeout
// is for those that are late on purpose.
const (
	testTimeout = time.Hour
	slowTimeout = time.Second
)

func TestMain(m *testing.M) {
	nrilog.Set(quiet{})
	adaptation.SetPluginRequestTimeout(testTimeout)
	os.Exit(m.Run())
}

// quiet is NRI's logger in tests.
type quiet struct{}

func (quiet) Debugf(context.Context, string, ...any) {}
func (quiet) Infof(context.Context, string, ...any)  {}
func (quiet) Warnf(context.Context, string, ...any)  {}
func (quiet) Errorf(context.Context, string, ...any) {}

// testRuntime is a container runtime without containers: the NRI of containerd with what containerd
// 2.4 does in internal/nri and internal/cri/nri. Plugins connect to a socket in front of NRI's own,
// because NRI does not close its connections as the end of a process does.
type testRuntime struct {
	t       testing.TB
	dir     string
	nri     *adaptation.Adaptation
	plugins atomic.Int64
	updates []*api.ContainerUpdate // of the latest synchronisation

	front *net.UnixListener
	mu    sync.Mutex
	conns []net.Conn

	state      sync.Mutex // one request at a time, as in containerd
	pods       []*api.PodSandbox
	containers []*api.Container
}

func newTestRuntime(t testing.TB) *testRuntime {
	// The path of a socket has at most 107 bytes, and t.TempDir may be longer.
	dir := must.Get(os.MkdirTemp("", "nri"))(t)
	r := &testRuntime{t: t, dir: dir}
	t.Cleanup(func() {
		r.end(false)
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *testRuntime) socket() string { return filepath.Join(r.dir, "nri.sock") }

func (r *testRuntime) begin() {
	r.t.Helper()
	back := filepath.Join(r.dir, "back.sock")
	made, err := adaptation.New("containerd", "v2.4.2", r.synchronize, r.unsolicited, adaptation.WithSocketPath(back),
		adaptation.WithPluginPath(filepath.Join(r.dir, "none")), adaptation.WithPluginConfigPath(filepath.Join(r.dir, "none")),
		adaptation.WithMetrics(counter{&r.plugins}))
	if err == nil {
		err = made.Start()
	}
	if err != nil {
		r.t.Fatal(err)
	}
	r.nri = made
	_ = os.Remove(r.socket()) // as NRI does with the one of a killed runtime
	r.front = must.Get(net.ListenUnix("unix", &net.UnixAddr{Name: r.socket(), Net: "unix"}))(r.t)
	go r.forward(r.front, back)
}

func (r *testRuntime) forward(front net.Listener, back string) {
	for {
		in, err := front.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("unix", back)
		if err != nil {
			in.Close()
			continue
		}
		r.mu.Lock()
		r.conns = append(r.conns, in, out)
		r.mu.Unlock()
		for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
			go func() {
				_, _ = io.Copy(way[0], way[1])
				way[0].Close()
				way[1].Close()
			}()
		}
	}
}

// end ends the runtime, as by an orderly exit or by a kill, which leaves the socket's file behind.
func (r *testRuntime) end(killed bool) {
	if r.nri == nil {
		return
	}
	r.front.SetUnlinkOnClose(!killed)
	r.front.Close()
	r.mu.Lock()
	for _, conn := range r.conns {
		conn.Close()
	}
	r.conns = nil
	r.mu.Unlock()
	r.nri.Stop()
	r.nri = nil
	r.plugins.Store(0)
}

// await waits for a number of plugins.
func (r *testRuntime) await(plugins int) {
	r.t.Helper()
	wait.True(r.t, fmt.Sprint(plugins, " plugins"), func() bool { return int(r.plugins.Load()) == plugins })
}

type counter struct{ plugins *atomic.Int64 }

func (counter) RecordPluginInvocation(string, string, error)      {}
func (counter) RecordPluginLatency(string, string, time.Duration) {}
func (c counter) UpdatePluginCount(n int)                         { c.plugins.Store(int64(n)) }
func (counter) RecordPluginAdjustments(string, string, *api.ContainerAdjustment, int, int) {
}

func (r *testRuntime) synchronize(ctx context.Context, plugin adaptation.SyncCB) error {
	r.state.Lock()
	defer r.state.Unlock()
	var there []*api.Container
	for _, c := range r.containers {
		if c.State != api.ContainerState_CONTAINER_STOPPED {
			there = append(there, c)
		}
	}
	updates, err := plugin(ctx, r.pods, there)
	r.updates = updates
	for _, u := range updates {
		i := slices.IndexFunc(r.containers, func(c *api.Container) bool { return c.Id == u.ContainerId })
		if i >= 0 {
			apply(r.containers[i], u.GetLinux().GetResources().GetCpu())
		}
	}
	return err
}

func (r *testRuntime) unsolicited(context.Context, []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) {
	return nil, nil
}

// apply changes a container's settings as the CRI does: zeros mean no change.
func apply(c *api.Container, cpu *api.LinuxCPU) {
	mine := c.Linux.Resources.Cpu
	if cpu.GetCpus() != "" {
		mine.Cpus = cpu.GetCpus()
	}
	if q := cpu.GetQuota().GetValue(); q != 0 {
		mine.Quota = api.Int64(q)
	}
	if p := cpu.GetPeriod().GetValue(); p != 0 {
		mine.Period = api.UInt64(p)
	}
}

// create asks the plugins about a container. If one of them fails it, it undoes everything, as
// containerd does in UndoCreateContainer.
func (r *testRuntime) create(ctx context.Context, pod *api.PodSandbox, c *api.Container) error {
	r.state.Lock()
	defer r.state.Unlock()
	resp, err := r.nri.CreateContainer(ctx, &api.CreateContainerRequest{Pod: pod, Container: clone(c)})
	if err != nil {
		if _, err := r.nri.StopContainer(ctx, &api.StopContainerRequest{Pod: pod, Container: clone(c)}); err != nil {
			r.t.Error(err)
		}
		if err := r.nri.RemoveContainer(ctx, &api.RemoveContainerRequest{Pod: pod, Container: clone(c)}); err != nil {
			r.t.Error(err)
		}
		return err
	}
	apply(c, resp.GetAdjust().GetLinux().GetResources().GetCpu())
	c.State = api.ContainerState_CONTAINER_CREATED
	r.containers = append(r.containers, c)
	return nil
}

func (r *testRuntime) start(ctx context.Context, pod *api.PodSandbox, c *api.Container) error {
	r.state.Lock()
	defer r.state.Unlock()
	err := r.nri.StartContainer(ctx, &api.StartContainerRequest{Pod: pod, Container: clone(c)})
	if err == nil {
		c.State = api.ContainerState_CONTAINER_RUNNING
	}
	return err
}

func (r *testRuntime) update(ctx context.Context, pod *api.PodSandbox, c *api.Container, cpu *api.LinuxCPU) error {
	r.state.Lock()
	defer r.state.Unlock()
	resp, err := r.nri.UpdateContainer(ctx, &api.UpdateContainerRequest{Pod: pod, Container: clone(c),
		LinuxResources: (&api.LinuxResources{Cpu: cpu}).Copy()})
	if err != nil {
		return err
	}
	if n := len(resp.Update); n > 0 && resp.Update[n-1].GetLinux().GetResources() != nil {
		cpu = resp.Update[n-1].GetLinux().GetResources().GetCpu()
	}
	apply(c, cpu)
	return nil
}

func (r *testRuntime) stop(ctx context.Context, pod *api.PodSandbox, c *api.Container) error {
	r.state.Lock()
	defer r.state.Unlock()
	c.State = api.ContainerState_CONTAINER_STOPPED
	_, err := r.nri.StopContainer(ctx, &api.StopContainerRequest{Pod: pod, Container: clone(c)})
	return err
}

func (r *testRuntime) remove(ctx context.Context, pod *api.PodSandbox, c *api.Container) error {
	r.state.Lock()
	defer r.state.Unlock()
	r.containers = slices.DeleteFunc(r.containers, func(d *api.Container) bool { return d == c })
	return r.nri.RemoveContainer(ctx, &api.RemoveContainerRequest{Pod: pod, Container: clone(c)})
}

// clone copies a container, because NRI modifies its arguments.
func clone(c *api.Container) *api.Container {
	d := &api.Container{}
	b, err := c.MarshalVT()
	if err == nil {
		err = d.UnmarshalVT(b)
	}
	if err != nil {
		panic(err)
	}
	return d
}
