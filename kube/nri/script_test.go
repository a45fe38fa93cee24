package nri

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// script is a handler that behaves as configured and records its calls.
type script struct {
	mu     sync.Mutex
	calls  []string
	wanted map[string]Settings // by the container's name
	manner map[string]string   // by call
}

func newScript() *script {
	return &script{wanted: map[string]Settings{}, manner: map[string]string{}}
}

func (s *script) want(container string, settings Settings) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted[container] = settings
}

func (s *script) behave(call, manner string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.manner[call] = manner
}

func (s *script) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, fmt.Sprintf(format, args...))
}

func (s *script) take() (lines string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, call := range s.calls {
		lines += call + "\n"
	}
	s.calls = nil
	return lines
}

func (s *script) act(ctx context.Context, call string, pod Pod, c Container) (Settings, error) {
	group, err := CgroupPath(c.CgroupsPath)
	if err != nil {
		group = err.Error()
	}
	s.note("%s %s/%s uid=%s parent=%s of=%s running=%v group=%s", call, pod.Name, c.Name, pod.UID, pod.CgroupParent,
		pod.Annotations["of"], c.Running, group)
	s.mu.Lock()
	manner, settings := s.manner[call], s.wanted[c.Name]
	s.mu.Unlock()
	return settings, misbehave(ctx, manner)
}

func misbehave(ctx context.Context, manner string) error {
	switch manner {
	case "panics":
		panic("out of order")
	case "hangs":
		<-ctx.Done()
		return ctx.Err()
	case "ignores": // its context
		time.Sleep(4 * slowTimeout)
	case "fails":
		return errors.New("no CPUs for it")
	}
	return nil
}

func (s *script) Synchronize(ctx context.Context, pods []Pod, containers []Container) map[string]Settings {
	s.note("synchronize %d pods", len(pods))
	answer := map[string]Settings{}
	for _, c := range containers {
		s.note("  %s of %s running=%v", c.Name, c.PodID, c.Running)
		s.mu.Lock()
		answer[c.ID] = s.wanted[c.Name]
		s.mu.Unlock()
	}
	s.mu.Lock()
	manner := s.manner["synchronize"]
	s.mu.Unlock()
	_ = misbehave(ctx, manner)
	return answer
}

func (s *script) Create(ctx context.Context, pod Pod, c Container) (Settings, error) {
	return s.act(ctx, "create", pod, c)
}

func (s *script) Start(ctx context.Context, pod Pod, c Container) error {
	_, err := s.act(ctx, "start", pod, c)
	return err
}

func (s *script) Update(ctx context.Context, pod Pod, c Container) Settings {
	settings, _ := s.act(ctx, "update", pod, c)
	return settings
}

func (s *script) Stopped(ctx context.Context, pod Pod, c Container) {
	_, _ = s.act(ctx, "stopped", pod, c)
}
