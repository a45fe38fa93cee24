// Programs records real programs under loads of users, each alone in a control group without a
// limit: what TestRecordings of bench judges advice by. bench/README.md says how to run it. The share
// of the CPUs that everything else used, its load included, is printed.
package main

import (
	"context"
	_ "embed" // the programs
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/internal/command"
	"pinfold.dev/pinfold/lab/load"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgroupstat"
	"pinfold.dev/pinfold/linux/confine"
	"pinfold.dev/pinfold/linux/sampler"
	"pinfold.dev/pinfold/tracefile"
)

//go:embed programs.yaml
var programs []byte

// program is an entry of programs.yaml, which says what the fields mean.
type program struct {
	Name, Prepare, Run, Drive, Path string
	Clients                         *struct {
		Number            int
		Busy, Idle, Pause metav1.Duration
	}
}

const (
	interval = 10 * time.Millisecond // between samples
	settle   = 6 * time.Second       // from the start of the load to the first sample
	patience = time.Minute           // for a program to listen
)

func main() {
	if status, ok := confine.Helper(os.Args[1:]); ok {
		os.Exit(status)
	}
	os.Exit(command.Main("programs", run))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("programs", flag.ContinueOnError)
	flags.SetOutput(stderr)
	output := flags.String("o", "", "record to this new Parquet `file`")
	only := flags.String("run", "", "record only the programs whose names match this `pattern`")
	duration := flags.Duration("duration", time.Minute, "how `long` each is recorded")
	if err := command.Parse(flags, args); err != nil {
		return err
	}
	pattern, err := regexp.Compile(*only)
	switch {
	case err != nil:
		return fmt.Errorf("%w: -run: %w", command.ErrUsage, err)
	case *output == "" || *duration < time.Second:
		return fmt.Errorf("%w: -o is needed, and a -duration of at least 1s", command.ErrUsage)
	}
	if err := (tracefile.Output{Name: *output}).Check(); err != nil {
		return err
	}
	var all []program
	if err := yaml.UnmarshalStrict(programs, &all); err != nil {
		return fmt.Errorf("programs.yaml: %w", err)
	}
	all = slices.DeleteFunc(all, func(p program) bool { return !pattern.MatchString(p.Name) })
	r := recorder{duration: *duration, stdout: stdout, stderr: stderr}
	if r.groups, err = cgroup.Open("/"); err != nil {
		return err
	}
	if r.module, err = os.Getwd(); err != nil {
		return err
	}
	recording := trace.Recording{Start: time.Now(), Interval: interval}
	var failed []error
	for _, p := range all {
		series, err := r.record(ctx, p)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", p.Name, err))
			fmt.Fprintln(stderr, failed[len(failed)-1])
			continue
		}
		recording.Series = append(recording.Series, series)
	}
	_, err = tracefile.Write(tracefile.Output{Name: *output}, tracefile.Header{Start: recording.Start, Interval: interval}, tracefile.Rows(&recording))
	return errors.Join(append(failed, err)...)
}

type recorder struct {
	groups         *cgroup.FS
	module         string // directory
	duration       time.Duration
	stdout, stderr io.Writer
}

// record runs a program and its load, and records its usage.
func (r *recorder) record(ctx context.Context, p program) (series trace.Series, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	dir, err := os.MkdirTemp("", "programs-")
	if err != nil {
		return series, err
	}
	defer os.RemoveAll(dir)
	port, err := freePort(ctx)
	if err != nil {
		return series, err
	}
	begin := fmt.Sprintf("cd %s; export PORT=%s MODULE=%s WORK=%s\n", dir, port, r.module, dir)
	if out, err := shell(ctx, begin+"set -e\n"+p.Prepare).CombinedOutput(); err != nil {
		return series, fmt.Errorf("prepare: %w: %s", err, out)
	}

	_, most := r.groups.Layout().Weights()
	ended := make(chan error, 1)
	go func() {
		_, err := confine.Run(ctx, confine.Spec{Name: p.Name, Path: "/bin/sh", Args: []string{"sh", "-c", begin + p.Run}, Stdout: r.stderr, Stderr: r.stderr,
			Settings: cgroup.Wanted{Weight: &most}, Notify: func(string) {}})
		if err == nil && ctx.Err() == nil {
			err = errors.New("the program ended")
		}
		cancel()
		ended <- err
	}()
	defer func() {
		cancel()
		if why := <-ended; why != nil {
			err = why // the cause of the other errors
		}
	}()

	loaded := make(chan struct{})
	defer func() { cancel(); <-loaded }()
	if strings.Contains(p.Prepare+p.Run, "$PORT") || p.Clients != nil {
		if err := listens(ctx, port); err != nil {
			close(loaded)
			return series, err
		}
	}
	go func() { defer close(loaded); r.load(ctx, p, begin, port) }()
	select {
	case <-ctx.Done():
		return series, context.Cause(ctx)
	case <-time.After(settle):
	}
	return r.sample(ctx, p)
}

// sample records the usage of a program that runs.
func (r *recorder) sample(ctx context.Context, p program) (series trace.Series, err error) {
	runs, err := confine.Runs(r.groups)
	if err != nil {
		return series, err
	}
	at := slices.IndexFunc(runs, func(group string) bool { return strings.HasSuffix(group, "-"+p.Name) })
	if at < 0 {
		return series, errors.New("it has no group")
	}
	s, err := sampler.New(r.groups, sampler.Options{Interval: interval})
	if err != nil {
		return series, err
	}
	s.Set([]string{runs[at]})
	before, err := r.everything()
	if err != nil {
		return series, err
	}
	begin := time.Now()
	bounded, cancel := context.WithTimeout(ctx, r.duration)
	defer cancel()
	var used time.Duration
	err = s.Run(bounded, func(t *sampler.Tick) error {
		for _, one := range t.Samples {
			series.Samples = append(series.Samples, one.Sample)
			used += one.Usage
		}
		return nil
	})
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return series, err
	}
	after, err := r.everything()
	if err != nil {
		return series, err
	}
	series.Group = "/" + p.Name
	seconds := time.Since(begin).Seconds()
	fmt.Fprintf(r.stdout, "%-18s %5d samples, %.3f CPUs; all else used %.0f%% of the machine\n", p.Name, len(series.Samples), used.Seconds()/seconds,
		100*(after-before-used).Seconds()/seconds/float64(runtime.NumCPU()))
	return series, nil
}

// everything returns the CPU time of the machine.
func (r *recorder) everything() (sum time.Duration, err error) {
	groups, err := cgroupstat.Everything(r.groups)
	if err != nil {
		return 0, err
	}
	for _, group := range groups {
		stat, err := cgroupstat.Read(r.groups, group)
		if err != nil {
			return 0, err
		}
		sum += stat.Usage
	}
	return sum, nil
}

// load runs the load of a program until ctx ends. What fails is printed.
func (r *recorder) load(ctx context.Context, p program, begin, port string) {
	var err error
	switch {
	case p.Drive != "":
		var out []byte
		out, err = shell(ctx, begin+p.Drive).CombinedOutput()
		err = fmt.Errorf("%w: %s", err, out)
	case p.Clients != nil:
		target := (&url.URL{Scheme: "http", Host: net.JoinHostPort("127.0.0.1", port)}).String() + "/" + p.Path
		var client *load.HTTP
		if client, err = load.NewHTTP(target); err != nil {
			break
		}
		defer client.Close()
		c := p.Clients
		var result load.Result
		result, err = load.Run(ctx, load.Clients{Number: c.Number, On: c.Busy.Duration, Off: c.Idle.Duration, Pause: c.Pause.Duration, Planned: true,
			Duration: settle + 2*r.duration, Seed: 1, Timeout: 10 * time.Second}, client.Send)
		for why, n := range result.Failures {
			fmt.Fprintf(r.stderr, "%s: %d requests: %s\n", p.Name, n, why)
		}
	default:
		return
	}
	if ctx.Err() == nil {
		fmt.Fprintf(r.stderr, "%s: the load ended: %v\n", p.Name, err)
	}
}

// shell returns a command that runs a script and is killed with its children.
func shell(ctx context.Context, script string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}

// listens waits until something listens on a port.
func listens(ctx context.Context, port string) error {
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		connection, err := (&net.Dialer{}).DialContext(bounded, "tcp", "127.0.0.1:"+port)
		if err == nil {
			return connection.Close()
		}
		if bounded.Err() != nil {
			return fmt.Errorf("it does not listen: %w", err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// freePort returns a port on which nothing listens.
func freePort(ctx context.Context) (string, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(listener.Addr().String())
	return port, errors.Join(err, listener.Close())
}
