package weight

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"pinfold.dev/pinfold/linux/cgroup"
)

// helperWord is the first argument of this program as its own helper.
const helperWord = "weight:helper"

// lockFile is the descriptor of the file of weights in the helper.
const lockFile = 3

// helper is the process that puts back weights when this process ends.
type helper struct {
	cmd   *exec.Cmd
	stdin io.Closer // closes when this process ends
}

// startHelper starts the helper. It holds the lock of the file, too.
func startHelper(root string, file *os.File, stderr io.Writer) (*helper, error) {
	h := &helper{cmd: &exec.Cmd{Path: "/proc/self/exe", Args: append(os.Args[:1:1], helperWord, root), ExtraFiles: []*os.File{file}, Stderr: stderr}}
	h.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	var err error
	if h.stdin, err = h.cmd.StdinPipe(); err == nil {
		err = h.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start the process that puts back weights: %w", err)
	}
	return h, nil
}

// end makes the helper put back the weights, and waits for it.
func (h *helper) end() error { return errors.Join(h.stdin.Close(), h.cmd.Wait()) }

// Helper runs this process as a helper if its arguments say so. If ok is true, the helper has
// finished and the program must exit with the status.
func Helper(args []string) (status int, ok bool) {
	if len(args) == 0 || args[0] != helperWord {
		return 0, false
	}
	if len(args) != 2 {
		return 1, true
	}
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM)
	_, _ = io.Copy(io.Discard, os.Stdin)
	fs, err := cgroup.OpenUsage(args[1])
	if err == nil {
		err = finish(fs, os.NewFile(lockFile, filepath.Join(args[1], fileName)), os.Stderr)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "pinfold: %v\n", err)
		return 1, true
	}
	return 0, true
}
