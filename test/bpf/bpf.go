// Package bpf compares compiled BPF programs with their source, and prepares the kernel for those
// that schedule, for the tests of the packages that have some.
package bpf

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// compiledBy are the versions with which the programs were compiled. Others may give other bytes.
var compiledBy = []struct {
	command []string
	version string
}{
	{[]string{"clang-19", "--version"}, "19.1.7"},
	{[]string{"grep", "-h", "define LIBBPF_M.*_VERSION", "/usr/include/bpf/libbpf_version.h"}, "#define LIBBPF_MAJOR_VERSION 1\n#define LIBBPF_MINOR_VERSION 1"},
}

// Compare reports an error unless object is what the programs of linux/NAME compile to. It is
// skipped as [Compile] is.
func Compare(t *testing.T, name string, object []byte) {
	t.Helper()
	compiled := Compile(t, "bpf/"+name+".bpf.c")
	if !bytes.Equal(compiled, object) {
		t.Errorf("%s.o (%d bytes) is not what the source compiles to (%d bytes): run make bpf", name, len(object), len(compiled))
	}
}

// Compile compiles a BPF program. The test must be in a package two directories below the
// repository's. It is skipped without the compiler of the compiled programs.
func Compile(t *testing.T, source string) []byte {
	t.Helper()
	for _, by := range compiledBy {
		out, err := exec.Command(by.command[0], by.command[1:]...).Output()
		if err != nil {
			t.Skipf("%v: %v: install clang-19, llvm-19 and libbpf-dev", by.command, err)
		}
		if !bytes.Contains(out, []byte(by.version)) {
			t.Skipf("%v: another version than %s: %s", by.command, by.version, out)
		}
	}
	file := filepath.Join(t.TempDir(), "program.o")
	if out, err := exec.Command("../../tools/bpf/build", source, file).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	compiled, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}
