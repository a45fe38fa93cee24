package inside

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/test/must"
)

// taskEnv turns this test binary into a process to be put into cgroups. Its value is "N WHAT": N
// threads that do something until standard input is closed.
const taskEnv = "PINFOLD_TEST_TASK"

func TestMain(m *testing.M) {
	switch what := os.Getenv(taskEnv); what {
	case "":
	case tellParallelism:
		beParallel()
		return
	default:
		beTask(what)
		return
	}
	os.Exit(m.Run())
}

// spun is what busy threads count.
var spun atomic.Uint64

func beTask(what string) {
	count, kind, _ := strings.Cut(what, " ")
	n, err := strconv.Atoi(count)
	if err != nil {
		panic(err)
	}
	begin := make(chan struct{})
	started := make(chan struct{})
	for range n {
		go func() {
			runtime.LockOSThread()
			started <- struct{}{}
			<-begin
			for kind == "busy" {
				spun.Add(1)
			}
			select {}
		}()
		<-started
	}
	fmt.Println("ready")
	in := bufio.NewReader(os.Stdin)
	if _, err := in.ReadString('\n'); err == nil {
		close(begin)
		_, _ = io.Copy(io.Discard, in)
	}
	os.Exit(0)
}

// task is a process in a cgroup.
type task struct {
	pid   int
	stdin io.WriteCloser
	cmd   *exec.Cmd
}

// start starts a process with n threads besides those of the Go runtime and puts it into a cgroup.
// It does nothing until it is told to begin.
func start(t *testing.T, n int, kind, group string) *task {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s", taskEnv, n, kind))
	stdin := must.Get(cmd.StdinPipe())(t)
	stdout := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	p := &task{cmd.Process.Pid, stdin, cmd}
	t.Cleanup(p.end)
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "ready\n" {
		t.Fatalf("the process printed %q (%v)", line, err)
	}
	write(t, hierarchy+group+"/cgroup.procs", strconv.Itoa(p.pid))
	return p
}

func (p *task) begin(t *testing.T) {
	t.Helper()
	must.Get(io.WriteString(p.stdin, "\n"))(t)
}

func (p *task) end() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// threads returns the threads in /proc.
func (p *task) threads(t *testing.T) []int {
	t.Helper()
	entries := must.Get(os.ReadDir(fmt.Sprintf("/proc/%d/task", p.pid)))(t)
	var threads []int
	for _, e := range entries {
		tid := must.Get(strconv.Atoi(e.Name()))(t)
		threads = append(threads, tid)
	}
	return threads
}

// allowed returns Cpus_allowed_list of each thread.
func (p *task) allowed(t *testing.T) map[int]cpuset.Set {
	t.Helper()
	allowed := map[int]cpuset.Set{}
	for _, tid := range p.threads(t) {
		text := must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/status", p.pid, tid)))(t)
		_, rest, _ := strings.Cut(string(text), "Cpus_allowed_list:")
		list, _, _ := strings.Cut(rest, "\n")
		allowed[tid] = cpuset.MustParse(strings.TrimSpace(list))
	}
	return allowed
}

// runningOn returns the CPUs of the runnable threads (proc(5), fields 3 and 39 of stat). Sleeping
// threads keep their CPU until they wake.
func (p *task) runningOn(t *testing.T) cpuset.Set {
	t.Helper()
	var cpus cpuset.Set
	for _, tid := range p.threads(t) {
		text := must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/stat", p.pid, tid)))(t)
		_, rest, _ := strings.Cut(string(text), ") ") // field 3 and following
		fields := strings.Fields(rest)
		n := must.Get(strconv.Atoi(fields[39-3]))(t)
		if fields[0] == "R" {
			cpus.Add(cpuset.CPU(n))
		}
	}
	return cpus
}
