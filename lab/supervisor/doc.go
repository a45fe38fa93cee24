// Package supervisor keeps a few child processes running and ensures that none of them outlives the
// process that started them. [New] returns a [Supervisor].
//
// One goroutine per child runs this state machine until the child is told to stop or the supervisor
// gives up:
//
//	starting -> ready -> (exit) -> waiting -> starting ...
//
// A child that ends is restarted after a short, growing pause. If a child ends several times in a
// row without becoming ready, the supervisor gives up on it, keeps the end of its log as the
// reason, and reports that on Failed. An exit after readiness, for any reason, resets the count, so
// a test may kill a child as often as it likes.
//
// Each child is in a process group of its own: ctrl-C on the terminal reaches only the supervisor,
// which then stops the children in the right order. Children also ask the kernel for SIGKILL when
// their parent dies, so that even a killed supervisor leaves nothing behind. To the kernel, the
// parent is the thread that forked (prctl(2), PR_SET_PDEATHSIG), and the Go runtime may end threads
// at any time. Therefore spawner.go starts all children from one thread that lives as long as they
// do.
package supervisor
