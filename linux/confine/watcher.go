package confine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
)

// watcher is the process that removes the group when this one is killed.
type watcher struct {
	cmd *exec.Cmd
	run io.WriteCloser // closes when this process ends
}

// lockFile is the descriptor of the group's lock in the watcher.
const lockFile = 3

// startWatcher starts the watcher. It is told by its standard input that the group was
// removed, or, when that ends before, that the run has.
func (g *group) startWatcher(stderr io.Writer) (*watcher, error) {
	text, err := json.Marshal(g)
	if err != nil {
		return nil, err
	}
	w := &watcher{cmd: helper(watcherWord, strconv.Itoa(os.Getpid()), strconv.Itoa(lockFile), string(text))}
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	w.cmd.ExtraFiles = []*os.File{g.lock}
	if f, ok := stderr.(*os.File); ok { // anything else has the command writing to it
		w.cmd.Stderr = f
	}
	if w.run, err = w.cmd.StdinPipe(); err == nil {
		err = w.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start the process that cleans up after this one: %w", err)
	}
	return w, nil
}

// dismiss ends the watcher: there is nothing left for it to do.
func (w *watcher) dismiss() error {
	_, err := io.WriteString(w.run, "done")
	return errors.Join(err, w.run.Close(), w.cmd.Wait())
}

// watch is the watcher.
func watch(run, lock, text string) int {
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM)
	if fd, err := strconv.Atoi(lock); err == nil {
		syscall.CloseOnExec(fd)
	}
	g, err := openGroup(text)
	if err != nil {
		fmt.Fprintf(os.Stderr, "pinfold: %v\n", err)
		return 1
	}
	if said, _ := io.ReadAll(os.Stdin); string(said) == "done" {
		return 0
	}
	if err := g.remove(); err != nil {
		fmt.Fprintf(os.Stderr, "pinfold: process %s was killed, and: %v\n", run, err)
		return 1
	}
	fmt.Fprintf(os.Stderr, "pinfold: process %s was killed: so was its command, and %s is removed\n", run, g.Name)
	return 0
}
