package inside

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/test/must"
)

// tellParallelism turns this test binary into a Go program that prints its GOMAXPROCS, initially
// and whenever it changes.
const tellParallelism = "tell GOMAXPROCS"

func beParallel() {
	for last := 0; ; time.Sleep(10 * time.Millisecond) {
		if now := runtime.GOMAXPROCS(0); now != last {
			fmt.Println(now)
			last = now
		}
	}
}

// testGoParallelism writes what the agent writes for a container with a limit of 2 CPUs whose quota
// is raised, kept and lowered again. A Go program reads its limit once per second and sets its
// parallelism accordingly: once for each of the two changes, and not because of other writes or
// while the quota is kept.
func testGoParallelism(t *testing.T, m machine) {
	limit, raised, period := ms(200), ms(600), ms(100)
	give := func(quota, burst *time.Duration) {
		t.Helper()
		w := cgroup.Wanted{Quota: quota, Period: period, Burst: burst}
		m.apply(t, map[string]cgroup.Wanted{m.pod(): w, m.container(): w})
	}
	give(limit, ms(0))
	printed := m.startParallel(t)
	var heard []string
	await := func(want string) {
		t.Helper()
		select {
		case got := <-printed:
			if heard = append(heard, got); got != want {
				t.Errorf("GOMAXPROCS becomes %s, want %s", got, want)
			}
		case <-time.After(time.Minute):
			t.Fatalf("GOMAXPROCS does not become %s", want)
		}
	}
	silent := func(what string) {
		t.Helper()
		select {
		case got := <-printed:
			heard = append(heard, got)
			t.Errorf("%s: GOMAXPROCS becomes %s", what, got)
		case <-time.After(3 * time.Second): // it reads its limit once per second
		}
	}
	await("2")
	give(limit, limit)
	silent("kernel burst")
	give(raised, limit)
	await("6")
	silent("while the quota is held")
	give(limit, limit)
	await("2")
	silent("back at the limit")
	if diff := cmp.Diff([]string{"2", "6", "2"}, heard); diff != "" {
		t.Errorf("GOMAXPROCS over time (-want +got):\n%s", diff)
	}
}

// startParallel starts the program in the container's cgroup, because Go determines its cgroup only
// when it starts, and returns its output.
func (m machine) startParallel(t *testing.T) <-chan string {
	t.Helper()
	group := must.Get(os.Open(hierarchy + m.container()))(t)
	defer group.Close()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), taskEnv+"="+tellParallelism)
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(group.Fd())}
	out := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	printed := make(chan string, 100)
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			printed <- strings.TrimSpace(lines.Text())
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return printed
}
