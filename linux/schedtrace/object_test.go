package schedtrace

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// compiledBy are the versions with which schedtrace.o was compiled. Others may give other bytes.
var compiledBy = []struct {
	command []string
	version string
}{
	{[]string{"clang-19", "--version"}, "19.1.7"},
	{[]string{"grep", "-h", "define LIBBPF_M.*_VERSION", "/usr/include/bpf/libbpf_version.h"}, "#define LIBBPF_MAJOR_VERSION 1\n#define LIBBPF_MINOR_VERSION 1"},
}

// TestObject: the compiled programs are those of the source.
func TestObject(t *testing.T) {
	for _, by := range compiledBy {
		out, err := exec.Command(by.command[0], by.command[1:]...).Output()
		if err != nil {
			t.Skipf("%v: %v: install clang-19, llvm-19 and libbpf-dev", by.command, err)
		}
		if !bytes.Contains(out, []byte(by.version)) {
			t.Skipf("%v: another version than %s: %s", by.command, by.version, out)
		}
	}
	file := filepath.Join(t.TempDir(), "schedtrace.o")
	if out, err := exec.Command("../../tools/bpf/build", file).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if compiled := must(os.ReadFile(file))(t); !bytes.Equal(compiled, object) {
		t.Errorf("schedtrace.o (%d bytes) is not what the source compiles to (%d bytes): run make bpf", len(object), len(compiled))
	}
}
