// Package supervisor keeps a few child processes running and makes sure that
// none of them outlives the process that started them.
//
// Each child has one goroutine that owns it and walks through
//
//	starting -> ready -> (exit) -> waiting -> starting ...
//
// until it is told to stop or gives up. A child that ends is started again
// after a short, growing pause. A child that ends several times in a row
// without having become ready once is not going to: the supervisor gives up
// on it, keeps the end of its log as the reason, and reports that on Failed.
// An exit after readiness, by whatever cause, starts the count afresh, so a
// test may kill a child as often as it likes.
//
// Children are put into process groups of their own: ctrl-C on the terminal
// reaches the supervisor alone, which then stops them in the right order.
// They also ask the kernel for SIGKILL when their parent dies, so that not
// even a killed supervisor leaves anything behind. The kernel means by
// "parent" the thread that forked (prctl(2), PR_SET_PDEATHSIG), and the Go
// runtime ends threads as it likes; spawner.go therefore starts all children
// from one thread that lives as long as they do.
package supervisor
