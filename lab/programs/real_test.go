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
	"pinfold.dev/pinfold/test/need"
	"pinfold.dev/pinfold/test/wait"
)

// find finds a program, or skips the test if it is not installed.
func find(t *testing.T, name string) Program {
	t.Helper()
	need.This(t, "the real "+name)
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
		if !answers(t, "http://"+site.Address+"/", server.Process.Pid, ended) {
			t.Logf("the server ended: %s", messages)
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
	t.Fatal("machine: the server has found no free port")
	return 0, ""
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	return listener.Addr().String()
}

// answers waits until a server answers or ends, and reports which.
func answers(t *testing.T, url string, pid int, ended <-chan error) (answered bool) {
	t.Helper()
	wait.Until(t, "the server answers", func() error {
		response, err := http.Get(url)
		if answered = err == nil; answered {
			return response.Body.Close()
		}
		select {
		case status := <-ended:
			t.Logf("the server ended: %v", status)
			return nil
		default:
			return err
		}
	}, wait.CPUTime(pid))
	return answered
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
	wait.True(t, fmt.Sprintf("process %d has %d children", pid, number), func() bool { return len(children(t, pid)) == number })
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
