package doctor

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/tools/txtar"

	"pinfold.dev/pinfold/test/must"
)

// TestUnprivileged checks that a user who may not write cgroups is told so, even if they are
// mounted read-write.
func TestUnprivileged(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/healthy.txtar")
	if err != nil {
		t.Fatal(err)
	}
	o := Defaults()
	dir := must.Get(os.Open(t.TempDir()))(t)
	defer dir.Close()                                  // it is only entered
	o.Root = fmt.Sprintf("/proc/self/fd/%d", dir.Fd()) // the other user may be unable to enter the directories above
	o.Cluster = unpack(t, o.Root, archive)
	// This user owns the files, and may not be root.
	must.Do(t, filepath.WalkDir(filepath.Join(o.Root, "sys/fs/cgroup"), func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			err = os.Chmod(name, 0o444)
		}
		return err
	}))
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
	t.Error("the report has no check for writing")
}

// asOther calls do on a thread of an unprivileged user, if the present user is root.
func asOther(do func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked
		if os.Getuid() == 0 {
			const nobody = 65534
			// A raw system call changes only this thread; the functions of package syscall change
			// all.
			if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, nobody, nobody, nobody); errno != 0 {
				panic(errno)
			}
		}
		do()
	}()
	<-done
}
