package nri

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/need"
)

// TestScenarios runs testdata/*.txt between Run and the runtime's side of NRI. A scenario is a
// sequence of blocks: commands, one per line, then "----" and their output: the calls of the
// handler, the state of the connection, conflicts, and the resulting container. Lines that start
// with # are comments. The commands are:
//
//	runtime up, runtime down, runtime killed
//	    killed leaves the socket's file behind
//	agent up, agent down
//	plugin INDEX-NAME cpus=7 quota=50ms period=100ms
//	    another plugin connects, and sets these for all containers, at creation and
//	    in updates
//	handler create|start|update|stopped|synchronize panics|hangs|fails|answers
//	want CONTAINER cpus=2-3 quota=none period=100ms, want CONTAINER nothing
//	    the handler's settings for containers with this name
//	pod NAME UID PARENT
//	create POD NAME ID PATH cpus=0 quota=50ms period=100ms
//	update ID cpus=0 quota=50ms period=100ms
//	start ID, stop ID, remove ID
func TestScenarios(t *testing.T) { scenarios(t, "testdata/*.txt") }

// TestSlowHandlers plays those in which a handler does not answer in time. The others must, so the
// runtime waits for a second only here.
func TestSlowHandlers(t *testing.T) {
	need.This(t, "answers within a second")
	t.Run("scenarios", func(t *testing.T) { // which are parallel
		adaptation.SetPluginRequestTimeout(slowTimeout)
		scenarios(t, "testdata/slow/*.txt")
	})
	adaptation.SetPluginRequestTimeout(testTimeout)
}

func scenarios(t *testing.T, files string) {
	golden.Scenarios(t, files, func(t *testing.T, text string) string {
		t.Parallel()
		s := &scenario{t: t, runtime: newTestRuntime(t), handler: newScript(), states: make(chan State, 1000)}
		defer s.agentDown()
		got := golden.Blocks(t, text, func(words []string) (string, error) {
			result, err := s.run(words)
			return strings.ReplaceAll(s.handler.take()+result, s.runtime.dir, "/var/run/nri"), err
		})
		return got
	})
}

type scenario struct {
	t       *testing.T
	runtime *testRuntime
	handler *script
	states  chan State
	cancel  context.CancelFunc
	ended   chan struct{}
	others  int
}

func (s *scenario) run(words []string) (string, error) {
	switch words[0] {
	case "runtime":
		return s.runtimeCommand(words[1]), nil
	case "agent":
		if words[1] == "down" {
			return s.agentDown(), nil
		}
		return s.agentUp(), nil
	case "plugin":
		return "", s.plugin(words[1], words[2:])
	case "handler":
		s.handler.behave(words[1], words[2])
		return "", nil
	case "want":
		settings, err := parseSettings(words[2:])
		s.handler.want(words[1], settings)
		return "", err
	case "pod":
		s.runtime.pods = append(s.runtime.pods, &api.PodSandbox{Id: "sandbox-" + words[1], Name: words[1], Namespace: "default",
			Uid: words[2], Linux: &api.LinuxPodSandbox{CgroupParent: words[3]}, Annotations: map[string]string{"of": words[1]}})
		return "", nil
	}
	return s.container(words)
}

func (s *scenario) runtimeCommand(what string) string {
	switch what {
	case "up":
		s.runtime.begin()
		if s.cancel == nil {
			return ""
		}
		state := s.until(func(state State) bool { return state.Connected })
		s.runtime.await(1)
		return state
	case "down":
		s.runtime.end(false)
	default:
		s.runtime.end(true)
	}
	s.others = 0
	if s.cancel == nil {
		return ""
	}
	return s.until(func(state State) bool {
		return errors.Is(state.Err, errNoSocket) || errors.Is(state.Err, errNotListening)
	})
}

// until prints states up to the first one that is wanted.
func (s *scenario) until(ok func(State) bool) string {
	for {
		switch state := <-s.states; {
		case !ok(state):
		case state.Connected:
			return fmt.Sprintf("connected to %s\n", state.Runtime)
		default:
			return fmt.Sprintf("not connected: %v\n", state.Err)
		}
	}
}

func (s *scenario) agentUp() string {
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel, s.ended = cancel, make(chan struct{})
	options := Options{Socket: s.runtime.socket(), OnState: func(state State) { s.states <- state },
		OnConflict: func(c Conflict) { s.handler.note("conflict (proven: %v): %s", c.Proven, c) }}
	go func() { Run(ctx, options, s.handler); close(s.ended) }()
	state := s.until(func(state State) bool { return state.Connected == (s.runtime.nri != nil) })
	if s.runtime.nri != nil {
		s.runtime.await(s.others + 1)
	}
	return state
}

func (s *scenario) agentDown() string {
	if s.cancel == nil {
		return ""
	}
	s.cancel()
	s.cancel = nil
	<-s.ended
	return "ended\n"
}

// plugin connects another plugin, which uses NRI's stub.
func (s *scenario) plugin(name string, words []string) error {
	settings, err := parseSettings(words)
	if err != nil {
		return err
	}
	index, name, _ := strings.Cut(name, "-")
	conn, err := net.Dial("unix", s.runtime.socket())
	if err != nil {
		return err
	}
	made, err := stub.New(&other{settings}, stub.WithPluginName(name), stub.WithPluginIdx(index), stub.WithConnection(conn))
	if err != nil {
		return err
	}
	if err := made.Start(context.Background()); err != nil {
		return err
	}
	s.t.Cleanup(made.Stop)
	s.others++
	before := 0
	if s.cancel != nil {
		before = 1
	}
	s.runtime.await(before + s.others)
	return nil
}

// other is another plugin.
type other struct{ settings Settings }

func (o *other) CreateContainer(context.Context, *api.PodSandbox, *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	return adjustment(o.settings.cpu()), nil, nil
}

func (o *other) UpdateContainer(_ context.Context, _ *api.PodSandbox, c *api.Container, _ *api.LinuxResources) ([]*api.ContainerUpdate, error) {
	return []*api.ContainerUpdate{update(c.Id, o.settings.cpu())}, nil
}

func (s *scenario) container(words []string) (string, error) {
	ctx, r := context.Background(), s.runtime
	if words[0] == "create" {
		settings, err := parseSettings(words[5:])
		if err != nil {
			return "", err
		}
		cpu := settings.cpu()
		if cpu == nil {
			cpu = &api.LinuxCPU{}
		}
		c := &api.Container{Id: words[3], PodSandboxId: "sandbox-" + words[1], Name: words[2],
			Linux: &api.LinuxContainer{CgroupsPath: words[4], Resources: &api.LinuxResources{Cpu: cpu}}}
		return outcome(c, r.create(ctx, s.pod(c), c)), nil
	}
	var c *api.Container
	for _, there := range r.containers {
		if there.Id == words[1] {
			c = there
		}
	}
	if c == nil {
		return "", fmt.Errorf("no container %s", words[1])
	}
	switch words[0] {
	case "start":
		return outcome(c, r.start(ctx, s.pod(c), c)), nil
	case "stop":
		return outcome(c, r.stop(ctx, s.pod(c), c)), nil
	case "remove":
		return outcome(c, r.remove(ctx, s.pod(c), c)), nil
	case "update":
		settings, err := parseSettings(words[2:])
		if err != nil {
			return "", err
		}
		return outcome(c, r.update(ctx, s.pod(c), c, settings.cpu())), nil
	case "show":
		return outcome(c, nil), nil
	}
	return "", fmt.Errorf("no such command")
}

func (s *scenario) pod(c *api.Container) *api.PodSandbox {
	for _, pod := range s.runtime.pods {
		if pod.Id == c.PodSandboxId {
			return pod
		}
	}
	s.t.Fatalf("no pod %s", c.PodSandboxId)
	return nil
}

// outcome prints the resulting container.
func outcome(c *api.Container, err error) string {
	if err != nil {
		return fmt.Sprintf("%s: refused: %v\n", c.Id, err)
	}
	cpu := c.Linux.Resources.Cpu
	text := c.Id + ": cpus=" + cpu.Cpus
	if cpu.Quota != nil {
		text += fmt.Sprintf(" quota=%d", cpu.Quota.Value)
	}
	if cpu.Period != nil {
		text += fmt.Sprintf(" period=%d", cpu.Period.Value)
	}
	return text + " " + strings.ToLower(strings.TrimPrefix(c.State.String(), "CONTAINER_")) + "\n"
}

func parseSettings(words []string) (s Settings, err error) {
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		switch {
		case word == "nothing":
		case key == "cpus":
			s.CPUs, err = cpuset.Parse(value)
		case key == "quota" && value == "none":
			s.Quota = bandwidth.Unlimited
		case key == "quota":
			s.Quota, err = time.ParseDuration(value)
		case key == "period":
			s.Period, err = time.ParseDuration(value)
		default:
			err = fmt.Errorf("no such setting: %s", word)
		}
		if err != nil {
			return s, err
		}
	}
	return s, nil
}
