package confine

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptree"
	"pinfold.dev/pinfold/linux/sysfs"
)

// doWord is the first argument of this test when it is the command under test, because virtual
// machines have no other programs.
const doWord = "do"

func TestMain(m *testing.M) {
	if status, ok := Helper(os.Args[1:]); ok {
		os.Exit(status)
	}
	if len(os.Args) > 2 && os.Args[1] == doWord {
		os.Exit(do(os.Args[2], os.Args[3:]))
	}
	os.Exit(m.Run())
}

// do is the command under test.
func do(what string, args []string) int {
	arg := strings.Join(args, " ")
	switch what {
	case "spin": // for a duration of wall time
		for d, began := duration(arg), time.Now(); time.Since(began) < d; {
			continue
		}
	case "where": // prints its group in the cpu hierarchy and its CPUs
		fs, err := cgroup.Open("/")
		if err != nil {
			return fail(err)
		}
		own, err := cgrouptree.Own(fs, cgroup.CPU)
		if err != nil {
			return fail(err)
		}
		cpus, err := sysfs.Affinity()
		if err != nil {
			return fail(err)
		}
		fmt.Println(own, cpus)
		if len(args) > 0 { // also of a child
			return child0("where")
		}
	case "exit":
		return number(arg)
	case "die":
		_ = unix.Kill(os.Getpid(), syscall.Signal(number(arg)))
		time.Sleep(time.Minute)
	case "sleep":
		time.Sleep(duration(arg))
	case "leave": // leaves a process behind that ends after a while
		cmd := exec.Command("/proc/self/exe", doWord, "sleep", arg)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			return fail(err)
		}
	case "count": // prints signals until SIGTERM
		return countSignals()
	case "run-when-told": // when its standard input ends
		_, _ = io.Copy(io.Discard, os.Stdin)
		return doRun(arg)
	case "run":
		return doRun(arg)
	case "fds":
		_, err := os.NewFile(3, "3").WriteString("still here")
		if err != nil {
			return fail(err)
		}
	default:
		return fail(fmt.Errorf("unknown command %q", what))
	}
	return 0
}

func child0(args ...string) int {
	cmd := exec.Command("/proc/self/exe", append([]string{doWord}, args...)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fail(err)
	}
	return 0
}

func countSignals() int {
	c := make(chan os.Signal, 100)
	signal.Notify(c, syscall.SIGINT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGHUP)
	fmt.Println("ready")
	for sig := range c {
		fmt.Println(unix.SignalName(sig.(syscall.Signal)))
		if sig == syscall.SIGTERM {
			return 3
		}
	}
	return 0
}

// order is a Spec for another process.
type order struct {
	Do                   []string
	Quota, Burst, Period time.Duration
	CPUs                 string // "" for no cpuset
	Idle, Wait           bool
}

func (o order) spec() Spec {
	s := Spec{Path: "/proc/self/exe", Args: append([]string{"command", doWord}, o.Do...), Wait: o.Wait,
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Notify: func(message string) { fmt.Fprintln(os.Stderr, "notice:", message) }}
	for _, v := range []struct {
		to **time.Duration
		is time.Duration
	}{{&s.Settings.Quota, o.Quota}, {&s.Settings.Burst, o.Burst}, {&s.Settings.Period, o.Period}} {
		if v.is != 0 {
			*v.to = &v.is
		}
	}
	if o.Idle {
		s.Settings.Idle = &o.Idle
	}
	if o.CPUs != "" {
		s.CPUs = func(Room) (cpuset.Set, error) { return cpuset.Parse(o.CPUs) }
	}
	return s
}

// doRun runs a command in this process.
func doRun(text string) int {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return fail(err)
	}
	r, err := Run(context.Background(), o.spec())
	if err != nil {
		return fail(err)
	}
	return r.ExitStatus
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 99
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return n
}

func duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		panic(err)
	}
	return d
}
