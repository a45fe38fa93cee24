package doctor

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/tools/txtar"
)

// TestUnprivileged: a user who may not write control groups is told so, also where they are
// mounted read-write.
func TestUnprivileged(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/healthy.txtar")
	if err != nil {
		t.Fatal(err)
	}
	o := Defaults()
	o.Root = t.TempDir()
	if err := os.Chmod(filepath.Dir(o.Root), 0o755); err != nil { // for others
		t.Fatal(err)
	}
	o.Cluster = unpack(t, o.Root, archive)
	var report Report
	asOther(func() { report = Examine(context.Background(), o) })
	for _, f := range report {
		if f.Check == "writable" {
			if f.Status != Problem || !strings.Contains(f.Found, "this user may not write here") || f.Do != "run as root" {
				t.Errorf("%+v", f)
			}
			return
		}
	}
	t.Error("nothing is said about writing")
}

// asOther calls do on a thread of a user without privileges, if this one is root; others may
// not write in a directory without the permission either.
func asOther(do func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked
		if os.Getuid() == 0 {
			const nobody = 65534
			// The system calls are those of one thread; the functions of package syscall change all.
			if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, nobody, nobody, nobody); errno != 0 {
				panic(errno)
			}
		}
		do()
	}()
	<-done
}
