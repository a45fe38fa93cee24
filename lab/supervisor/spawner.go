package supervisor

import (
	"os/exec"
	"runtime"
	"syscall"
)

// spawner starts processes from one operating-system thread that it holds
// until it is closed. It must be closed only after its children have ended:
// those that are left get SIGKILL when the thread goes.
type spawner struct {
	requests chan spawnRequest
}

type spawnRequest struct {
	command *exec.Cmd
	result  chan error
}

func newSpawner() *spawner {
	s := &spawner{requests: make(chan spawnRequest)}
	go s.run()
	return s
}

// run never unlocks its thread: the runtime then ends the thread with the
// goroutine instead of handing it to somebody else.
func (s *spawner) run() {
	runtime.LockOSThread()
	for request := range s.requests {
		request.result <- request.command.Start()
	}
}

func (s *spawner) start(command *exec.Cmd) error {
	command.SysProcAttr = &syscall.SysProcAttr{
		Setpgid:   true,
		Pdeathsig: syscall.SIGKILL,
	}
	request := spawnRequest{command: command, result: make(chan error, 1)}
	s.requests <- request
	return <-request.result
}

func (s *spawner) close() { close(s.requests) }
