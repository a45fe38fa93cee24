package frametest

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"pinfold.dev/pinfold/test/need"
)

// Linked returns the packages that the program in the working directory links on a system.
func Linked(t *testing.T, environment ...string) []string {
	t.Helper()
	need.This(t, "the go command")
	command := exec.Command("go", "list", "-deps", "-tags=grpcnotrace", ".") // as in Makefile
	command.Env = append(os.Environ(), environment...)
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %v", command, err)
	}
	return strings.Fields(string(out))
}

// LinksNone reports an error for each package that the program in the working directory links though it,
// or what it is in, is forbidden.
func LinksNone(t *testing.T, forbidden ...string) {
	t.Helper()
	for _, path := range Linked(t) {
		if slices.ContainsFunc(forbidden, func(f string) bool { return path == f || strings.HasPrefix(path, f+"/") }) {
			t.Errorf("it must not link %s", path)
		}
	}
}
