package programs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/procfs"

	"pinfold.dev/pinfold/test/must"
)

// startTimeout is the time that a server has to answer, also on a busy machine.
const startTimeout = time.Minute

// find finds a program, or skips the test if it is not installed.
func find(t *testing.T, name string) Program {
	t.Helper()
	p, err := Find(name)
	if errors.Is(err, exec.ErrNotFound) {
		t.Skipf("%v: install it to run this test (Debian: apt-get install nginx apache2-bin wrk ffmpeg)", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if !strings.ContainsAny(p.Version, "0123456789") {
		t.Errorf("%s has the version %q", name, p.Version)
	}
	return p
}

// command returns a command in a process group of its own, which ends with the test, and what it
// writes to standard error.
func command(t *testing.T, args []string) (*exec.Cmd, *bytes.Buffer) {
	var messages bytes.Buffer
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute) // not cancelled before Cleanup
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Stderr, cmd.WaitDelay = &messages, time.Minute
	return cmd, &messages
}

// siteDir returns a directory in which the workers of Apache can be nobody.
func siteDir(t *testing.T) string {
	t.Helper()
	dir := must.Get(os.MkdirTemp("", "pinfold-site-"))(t)
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// serve runs a web server and returns its process and its URL. When the test ends, a signal must
// end the server with status 0 and without messages. If another process takes the port, serve
// chooses another port.
func serve(t *testing.T, p Program, site Site, end os.Signal, configure func(Site) ([]string, error)) (pid int, url string) {
	t.Helper()
	for range 5 {
		site.Address = freeAddress(t)
		args := must.Get(configure(site))(t)
		server, messages := command(t, p.Command(args...))
		must.Do(t, server.Start())
		ended := make(chan error, 1)
		go func() { ended <- server.Wait() }()
		if err := answers("http://"+site.Address+"/", ended); err != nil {
			t.Logf("%v: %s", err, messages)
			continue
		}
		t.Cleanup(func() {
			if err := server.Process.Signal(end); err != nil {
				t.Error(err)
			}
			if err := <-ended; err != nil || messages.Len() > 0 {
				t.Errorf("the server ended with %v: %s", err, messages)
			}
		})
		return server.Process.Pid, "http://" + site.Address
	}
	t.Fatal("the server does not start")
	return 0, ""
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	return listener.Addr().String()
}

// answers waits until a server answers or ends.
func answers(url string, ended <-chan error) error {
	for deadline := time.Now().Add(startTimeout); time.Now().Before(deadline); {
		response, err := http.Get(url)
		if err == nil {
			return response.Body.Close()
		}
		select {
		case err := <-ended:
			return fmt.Errorf("the server ended: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
	return fmt.Errorf("%s does not answer in %v", url, startTimeout)
}

// get returns the body of a response with status 200.
func get(t *testing.T, url string) string {
	t.Helper()
	response, err := http.Get(url)
	must.Do(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s: %s (%v)", url, response.Status, body, err)
	}
	return string(body)
}

// cpuTime returns the CPU time that processes have used.
func cpuTime(t *testing.T, pids []int) (sum time.Duration) {
	t.Helper()
	for _, pid := range pids {
		stat := must.Get(process(t, pid).Stat())(t)
		sum += time.Duration(stat.CPUTime() * float64(time.Second))
	}
	return sum
}

// awaitChildren waits until a process has a number of children.
func awaitChildren(t *testing.T, pid, number int) {
	t.Helper()
	for deadline := time.Now().Add(startTimeout); len(children(t, pid)) != number; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d has the children %v, want %d", pid, children(t, pid), number)
		}
	}
}

// children returns the children of a process.
func children(t *testing.T, pid int) (pids []int) {
	t.Helper()
	processes := must.Get(procfs.AllProcs())(t)
	for _, p := range processes {
		if stat, err := p.Stat(); err == nil && stat.PPID == pid { // other processes may end meanwhile
			pids = append(pids, p.PID)
		}
	}
	return pids
}

func process(t *testing.T, pid int) procfs.Proc {
	t.Helper()
	return must.Get(procfs.NewProc(pid))(t)
}
