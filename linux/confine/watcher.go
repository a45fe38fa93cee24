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

// watcher is the process that removes the group if this process is killed.
type watcher struct {
	cmd *exec.Cmd
	run io.WriteCloser // closes when this process ends
}

// lockFile is the descriptor of the group's lock in the watcher.
const lockFile = 3

// startWatcher starts the watcher. Its standard input says "done" when the group was removed, and
// ends without that if the run was killed.
func (g *group) startWatcher(stderr io.Writer) (*watcher, error) {
	text, err := json.Marshal(g)
	if err != nil {
		return nil, err
	}
	w := &watcher{cmd: helperCommand(watcherWord, strconv.Itoa(os.Getpid()), strconv.Itoa(lockFile), string(text))}
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	w.cmd.ExtraFiles = []*os.File{g.lock}
	if f, ok := stderr.(*os.File); ok { // the command already writes to any other writer
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

// stop ends the watcher after the group was removed.
func (w *watcher) stop() error {
	_, err := io.WriteString(w.run, "done")
	return errors.Join(err, w.run.Close(), w.cmd.Wait())
}

// watch runs in the watcher process and returns its exit status.
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
		fmt.Fprintf(os.Stderr, "pinfold: process %s was killed, and cleaning up failed: %v\n", run, err)
		return 1
	}
	fmt.Fprintf(os.Stderr, "pinfold: process %s was killed; its command was killed and %s was removed\n", run, g.Name)
	return 0
}
