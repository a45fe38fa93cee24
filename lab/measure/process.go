package measure

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

// program is a program to start.
type program struct {
	name    string // the unique part of that of its group
	command []string
	// Built-in programs print a line when they are ready. Of others, this is the address on which
	// they listen, or "" if they do not.
	builtIn bool
	address string
	path    string        // of the URL of its requests, without the leading slash
	title   string        // for messages
	wanted  cgroup.Wanted // settings of the group, which are those of the service
	output  io.Writer     // of a program that is not built in; may be nil
}

// process is a running program.
type process struct {
	title   string
	group   string
	address string        // of a server; the last word of the first line that the program prints
	done    chan struct{} // closed when it has ended and its group was removed

	mu      sync.Mutex
	goodput []float64 // of the lines since the last call of take
	err     error     // why it has ended, once done is closed
	result  *confine.Result

	// finished receives the seconds that the program took, if it is one that finishes.
	finished chan float64
	silent   chan struct{} // closed when the program will print no more
}

// start starts a program in a control group of its own, and waits until it is ready. It ends with
// ctx.
func (m machine) start(ctx context.Context, s program, notify func(string)) (*process, error) {
	output, input, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", s.title, err)
	}
	stdout := s.output
	if s.builtIn {
		stdout = input
	}
	p := &process{}
	run := func(ctx context.Context) (err error) {
		defer input.Close()
		p.result, err = confine.Run(ctx, confine.Spec{Name: s.name, Path: s.command[0], Args: s.command, Stdout: stdout, Stderr: os.Stderr,
			Settings: s.wanted, CPUs: func(room confine.Room) (cpuset.Set, error) { return chosen(room, s.wanted.CPUs) }, Notify: notify})
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", s.title, err)
		case !p.result.Terminated:
			return fmt.Errorf("%s ended with status %d", s.title, p.result.ExitStatus)
		}
		return nil
	}
	return p, p.start(ctx, s, output, run, func(ctx context.Context) error { return m.locate(ctx, p, s.name) })
}

// start calls run, and waits until the program of which it reads the output is ready, and was
// located.
func (p *process) start(ctx context.Context, s program, output io.ReadCloser, run, locate func(context.Context) error) error {
	p.title, p.done, p.finished, p.silent = s.title, make(chan struct{}), make(chan float64, 1), make(chan struct{})
	ctx, cancel := context.WithCancelCause(ctx)
	defer time.AfterFunc(startTimeout, func() { cancel(errLate) }).Stop()
	go func() {
		defer cancel(nil)
		defer close(p.done)
		p.err = run(ctx)
	}()
	lines := bufio.NewReader(output)
	err := p.ready(ctx, s, lines)
	go p.read(lines, output)
	if err == nil {
		err = locate(ctx)
	}
	if err != nil {
		cancel(err)
		<-p.done
		return fmt.Errorf("%s did not start: %w", s.title, cmp.Or(p.err, context.Cause(ctx)))
	}
	return nil
}

var errLate = fmt.Errorf("it was not ready after %v", startTimeout)

// ready waits until a program has printed its first line, or accepts connections.
func (p *process) ready(ctx context.Context, s program, lines *bufio.Reader) (err error) {
	if s.builtIn {
		p.address, err = firstLine(lines)
		return err
	}
	if p.address = s.address; p.address == "" {
		return nil
	}
	return p.until(ctx, func() (bool, error) {
		connection, err := net.Dial("tcp", p.address)
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
func (p *process) until(ctx context.Context, holds func() (bool, error)) error {
	for {
		ok, err := holds()
		if ok {
			return err
		}
		select {
		case <-p.done:
			return cmp.Or(p.err, errEnded)
		case <-time.After(startPoll):
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

var errEnded = errors.New("it ended")

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
func (m machine) locate(ctx context.Context, p *process, name string) error {
	return p.until(ctx, func() (bool, error) {
		runs, _ := confine.Runs(m.groups) // without private groups of other users
		for _, run := range runs {
			if strings.HasSuffix(run, name) {
				p.group = run
			}
		}
		return p.group != "", nil
	})
}

// read collects the lines that the program prints, until it ends.
func (p *process) read(lines *bufio.Reader, output io.Closer) {
	defer close(p.silent)
	defer output.Close()
	for {
		line, err := lines.ReadString('\n')
		if amount, ok := compute.Goodput(line); ok {
			p.mu.Lock()
			p.goodput = append(p.goodput, amount)
			p.mu.Unlock()
		}
		if seconds, ok := compute.Elapsed(line); ok {
			p.finished <- seconds
		}
		if err != nil {
			return
		}
	}
}

// take returns the amounts of work that the program has printed since the last call.
func (p *process) take() []float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	amounts := p.goodput
	p.goodput = nil
	return amounts
}
