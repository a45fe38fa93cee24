// Package need separates the tests whose verdict depends on the commit alone from all others.
//
// The former are the class pure: "make test" runs them with -short, and a failure is a defect.
// Every other test names what it needs besides with [This], which skips it under -short. test/suite
// runs those one at a time, and tells a defect from a failure of the machine.
package need

import (
	"os"
	"testing"
)

// Environment variables that test/suite sets for tests that need more than the commit. The go
// command keeps a test's result until one that it has read changes.
const (
	MachineEnv  = "PINFOLD_TEST_MACHINE"  // names the machine and its kernel
	ProgramsEnv = "PINFOLD_TEST_PROGRAMS" // a directory with Pinfold's commands; unset: tests build them
)

// This skips the test under -short. It names what the test's verdict depends on besides the commit:
// a component that is started, such as "a real node", or the speed of this machine.
func This(t testing.TB, what string) {
	t.Helper()
	if testing.Short() {
		t.Skipf("needs %s: run without -short", what)
	}
	_ = os.Getenv(MachineEnv) // a result of another machine or kernel does not count
}
