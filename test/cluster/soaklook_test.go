package cluster

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"pinfold.dev/pinfold/local/localcluster"
	"pinfold.dev/pinfold/test/must"
)

// held is an amount of something that a process holds, and by how much it varies without a leak:
// because of connections, timers and the caches of Kubernetes' libraries.
type held struct{ value, slack int }

const (
	slackHeap       = 4 << 20
	slackGoroutines = 8
	slackFiles      = 4
)

// look returns what the scheduler and this process, which contains the agent, hold after a garbage
// collection. With an earlier look, it waits until no more is held than then, which a leak prevents.
func (s *soak) look(before map[string]held) (now map[string]held) {
	s.Helper()
	if before == nil {
		time.Sleep(15 * time.Second) // the cluster becomes idle
		return s.lookNow()
	}
	s.eventually("no more is held than before", func() error {
		now = s.lookNow()
		for name, was := range before {
			if is, most := now[name].value, was.value+was.slack; is > most {
				return fmt.Errorf("%s: %d, and %d before; want at most %d", name, is, was.value, most)
			}
		}
		return nil
	})
	return now
}

func (s *soak) lookNow() map[string]held {
	s.Helper()
	runtime.GC()
	runtime.GC() // for objects with finalizers
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	state, err := localcluster.ReadState(s.dir)
	s.must(err)
	scheduler, _ := state.Component(localcluster.Scheduler)
	out := map[string]held{
		"agent: heap":           {int(memory.HeapAlloc), slackHeap},
		"agent: goroutines":     {runtime.NumGoroutine(), slackGoroutines},
		"agent: files":          {files(s.T, os.Getpid()), slackFiles},
		"scheduler: heap":       {s.profile("heap?gc=1&debug=1", `# HeapAlloc = (\d+)`), slackHeap},
		"scheduler: goroutines": {s.profile("goroutine?debug=1", `goroutine profile: total (\d+)`), slackGoroutines},
		"scheduler: files":      {files(s.T, scheduler.PID), slackFiles},
		"scheduler: restarts":   {scheduler.Restarts, 0},
	}
	for _, kind := range []string{"pods", "assumed_pods"} {
		out["scheduler: "+kind] = held{s.schedulerSays("/metrics", `(?m)^scheduler_cache_size\{type="`+kind+`"\} (\d+)`), 0}
	}
	return out
}

// files returns the number of open files of a process.
func files(t *testing.T, pid int) int {
	t.Helper()
	names := must.Get(os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid)))(t)
	return len(names)
}

func (s *soak) profile(what, pattern string) int {
	s.Helper()
	return s.schedulerSays("/debug/pprof/"+what, pattern)
}

// schedulerSays returns a number in a document that the scheduler serves.
func (s *soak) schedulerSays(path, pattern string) int {
	s.Helper()
	body := s.fromScheduler(path)
	found := regexp.MustCompile(pattern).FindSubmatch(body)
	if found == nil {
		s.Fatalf("%s: no %s in %d bytes", path, pattern, len(body))
	}
	n, err := strconv.Atoi(string(found[1]))
	s.must(err)
	return n
}

// fromScheduler returns what the scheduler serves at a path.
func (s *soak) fromScheduler(path string) []byte {
	s.Helper()
	state, err := localcluster.ReadState(s.dir)
	s.must(err)
	scheduler, _ := state.Component(localcluster.Scheduler)
	args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", scheduler.PID))
	s.must(err)
	port := regexp.MustCompile(`--secure-port=(\d+)`).FindStringSubmatch(string(args))
	if port == nil {
		s.Fatalf("the scheduler's port is not among %q", args)
	}
	client, err := rest.HTTPClientFor(s.config)
	s.must(err)
	response, err := client.Get("https://127.0.0.1:" + port[1] + path)
	s.must(err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	s.must(err)
	if response.StatusCode != http.StatusOK {
		s.Fatalf("%s: %s: %s", path, response.Status, body)
	}
	return body
}
