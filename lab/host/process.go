package host

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/lab/compute"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/confine"
)

// Program is a program to start.
type Program struct {
	Name    string // the unique part of that of its group
	Command []string
	// Built-in programs print a line when they are ready. Of others, this is the address on which
	// they listen, or "" if they do not.
	BuiltIn bool
	Address string
	Title   string        // for messages
	Wanted  cgroup.Wanted // settings of the group
	Output  io.Writer     // of a program that is not built in; may be nil
}

// Process is a running program.
type Process struct {
	Title   string
	Group   string
	Address string        // of a server; the last word of the first line that the program prints
	Done    chan struct{} // closed when it has ended and its group was removed

	mu      sync.Mutex
	goodput []float64 // of the lines since the last call of Take
	// Err is why it has ended, and Result what was counted, once Done is closed.
	Err    error
	Result *confine.Result

	// Finished receives the seconds that the program took, if it is one that finishes.
	Finished chan float64
	Silent   chan struct{} // closed when the program will print no more
}

// Start starts a program in a control group of its own, and waits until it is ready. It ends with
// ctx.
func (m Machine) Start(ctx context.Context, s Program, notify func(string)) (*Process, error) {
	output, input, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", s.Title, err)
	}
	stdout := s.Output
	if s.BuiltIn {
		stdout = input
	}
	p := &Process{}
	run := func(ctx context.Context) (err error) {
		defer input.Close()
		p.Result, err = confine.Run(ctx, confine.Spec{Name: s.Name, Path: s.Command[0], Args: s.Command, Stdout: stdout, Stderr: os.Stderr,
			Settings: s.Wanted, CPUs: func(room confine.Room) (cpuset.Set, error) { return chosen(room, s.Wanted.CPUs) }, Notify: notify})
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", s.Title, err)
		case !p.Result.Terminated:
			return fmt.Errorf("%s ended with status %d", s.Title, p.Result.ExitStatus)
		}
		return nil
	}
	return p, p.start(ctx, s, output, run, func(ctx context.Context) error { return m.locate(ctx, p, s.Name) })
}

// start calls run, and waits until the program of which it reads the output is ready, and was
// located.
func (p *Process) start(ctx context.Context, s Program, output io.ReadCloser, run, locate func(context.Context) error) error {
	p.Title, p.Done, p.Finished, p.Silent = s.Title, make(chan struct{}), make(chan float64, 1), make(chan struct{})
	ctx, cancel := context.WithCancelCause(ctx)
	defer time.AfterFunc(startTimeout, func() { cancel(errLate) }).Stop()
	go func() {
		defer cancel(nil)
		defer close(p.Done)
		p.Err = run(ctx)
	}()
	lines := bufio.NewReader(output)
	err := p.ready(ctx, s, lines)
	go p.read(lines, output)
	if err == nil {
		err = locate(ctx)
	}
	if err != nil {
		cancel(err)
		<-p.Done
		return fmt.Errorf("%s did not start: %w", s.Title, cmp.Or(p.Err, context.Cause(ctx)))
	}
	return nil
}

var errLate = fmt.Errorf("it was not ready after %v", startTimeout)

// ready waits until a program has printed its first line, or accepts connections.
func (p *Process) ready(ctx context.Context, s Program, lines *bufio.Reader) (err error) {
	if s.BuiltIn {
		p.Address, err = firstLine(lines)
		return err
	}
	if p.Address = s.Address; p.Address == "" {
		return nil
	}
	return p.until(ctx, func() (bool, error) {
		connection, err := net.Dial("tcp", p.Address)
		if err != nil {
			return false, err
		}
		return true, connection.Close()
	})
}

// firstLine returns the last word of the first line.
func firstLine(lines *bufio.Reader) (string, error) {
	first, err := lines.ReadString('\n')
	if err != nil {
		return "", err
	}
	words := strings.Fields(first)
	if len(words) == 0 {
		return "", errors.New("it printed an empty line")
	}
	return words[len(words)-1], nil
}

const (
	startTimeout = 20 * time.Second
	startPoll    = 5 * time.Millisecond
)

// until waits until a condition holds. It returns an error if the program or ctx has ended before.
func (p *Process) until(ctx context.Context, holds func() (bool, error)) error {
	for {
		ok, err := holds()
		if ok {
			return err
		}
		select {
		case <-p.Done:
			return cmp.Or(p.Err, ErrEnded)
		case <-time.After(startPoll):
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

// ErrEnded is the error of a program that has ended without one.
var ErrEnded = errors.New("it ended")

// chosen returns the CPUs for a program: those that were chosen, or all that this process may use.
func chosen(room confine.Room, cpus *cpuset.Set) (cpuset.Set, error) {
	all := room.Parent.Intersection(room.Affinity)
	if cpus == nil {
		return all, nil
	}
	if missing := cpus.Difference(all); !missing.IsEmpty() {
		return cpuset.Set{}, fmt.Errorf("CPUs %s may not be used here", missing)
	}
	return *cpus, nil
}

// locate finds the group of a program, which may just be starting.
func (m Machine) locate(ctx context.Context, p *Process, name string) error {
	return p.until(ctx, func() (bool, error) {
		runs, _ := confine.Runs(m.Groups) // without private groups of other users
		for _, run := range runs {
			if strings.HasSuffix(run, name) {
				p.Group = run
			}
		}
		return p.Group != "", nil
	})
}

// read collects the lines that the program prints, until it ends.
func (p *Process) read(lines *bufio.Reader, output io.Closer) {
	defer close(p.Silent)
	defer output.Close()
	for {
		line, err := lines.ReadString('\n')
		if amount, ok := compute.Goodput(line); ok {
			p.mu.Lock()
			p.goodput = append(p.goodput, amount)
			p.mu.Unlock()
		}
		if seconds, ok := compute.Elapsed(line); ok {
			p.Finished <- seconds
		}
		if err != nil {
			return
		}
	}
}

// Take returns the amounts of work that the program has printed since the last call.
func (p *Process) Take() []float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	amounts := p.goodput
	p.goodput = nil
	return amounts
}

// FreeAddress returns a loopback address on which nothing listens.
func FreeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return listener.Addr().String(), listener.Close()
}
