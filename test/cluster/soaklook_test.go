package cluster

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
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

// fixture is the root directory of a machine with ordinary files instead of the kernel's: 8 CPUs,
// of which N and N+4 are one core, and cgroups of version 1.
type fixture struct {
	t    *testing.T
	root string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t, t.TempDir()}
	f.file("proc/self/mountinfo", `31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw
32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu
33 31 0:30 / /sys/fs/cgroup/cpuacct rw - cgroup cgroup rw,cpuacct
34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset`)
	f.file("proc/stat", "cpu  8 0 0 8 0 0 0 0 0 0\ncpu0 1 0 0 1 0 0 0 0 0 0")
	f.file("sys/devices/system/cpu/online", "0-7")
	f.file("sys/devices/system/cpu/present", "0-7")
	for cpu := range 8 {
		dir := fmt.Sprintf("sys/devices/system/cpu/cpu%d/topology/", cpu)
		f.file(dir+"core_cpus_list", fmt.Sprintf("%d,%d", cpu%4, cpu%4+4))
		f.file(dir+"package_cpus_list", "0-7")
		f.file(dir+"physical_package_id", "0")
	}
	f.file("sys/devices/system/node/online", "0")
	f.file("sys/devices/system/node/node0/cpulist", "0-7")
	f.file("sys/devices/system/node/node0/distance", "10")
	f.file("sys/devices/system/node/node0/meminfo", "Node 0 MemTotal:       8388608 kB")
	for _, group := range []string{"/", "/kubepods", "/kubepods/burstable", "/kubepods/besteffort"} {
		f.group(group, "-1")
	}
	return f
}

func (f *fixture) file(name, text string) {
	f.t.Helper()
	name = filepath.Join(f.root, name)
	must.Do(f.t, os.MkdirAll(filepath.Dir(name), 0o755))
	must.Do(f.t, os.WriteFile(name, []byte(text+"\n"), 0o644))
}

// group creates a cgroup with all CPUs. It appears with all of its files, as the kernel's do: an agent
// would write to a file while the test does.
func (f *fixture) group(path, quota string) {
	f.t.Helper()
	made := must.Get(os.MkdirTemp(f.root, "made-"))(f.t)
	for name, text := range map[string]string{
		"cpu/cpu.cfs_quota_us": quota, "cpu/cpu.cfs_period_us": "100000", "cpu/cpu.cfs_burst_us": "0", "cpu/cpu.shares": "1024",
		"cpu/cpu.idle": "0", "cpu/cpu.stat": "nr_periods 0", "cpu/cgroup.procs": "", "cpuacct/cgroup.procs": "", "cpuset/cgroup.procs": "",
		"cpuacct/cpuacct.usage": "0", "cpuset/cpuset.cpus": "0-7", "cpuset/tasks": "",
	} {
		f.file(filepath.Join(filepath.Base(made), name), text)
	}
	must.Do(f.t, os.Symlink("cpuset.cpus", filepath.Join(made, "cpuset/cpuset.effective_cpus")))
	for _, controller := range []string{"cpu", "cpuacct", "cpuset"} { // the kernel creates the same cgroup in all hierarchies
		at := filepath.Join(f.root, "sys/fs/cgroup", controller, path)
		must.Do(f.t, os.MkdirAll(filepath.Dir(at), 0o755))
		must.Do(f.t, os.Rename(filepath.Join(made, controller), at))
	}
	must.Do(f.t, os.Remove(made))
}

// cpus returns the CPUs of a cgroup.
func (f *fixture) cpus(path string) string {
	f.t.Helper()
	text := must.Get(os.ReadFile(filepath.Join(f.root, "sys/fs/cgroup/cpuset", path, "cpuset.cpus")))(f.t)
	return strings.TrimSpace(string(text))
}

// remove removes a cgroup and its children.
func (f *fixture) remove(path string) {
	f.t.Helper()
	for _, controller := range []string{"cpu", "cpuacct", "cpuset"} {
		must.Do(f.t, os.RemoveAll(filepath.Join(f.root, "sys/fs/cgroup", controller, path)))
	}
}
