package confine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptree"
)

func TestLock(t *testing.T) {
	dir := t.TempDir()
	first, err := tryLock(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tryLock(dir); !errors.Is(err, errHeld) {
		t.Errorf("the second time: %v", err)
	}
	first.Close()
	again, err := tryLock(dir)
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
	if _, err := tryLock(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
}

// TestLockPlace checks that only one run at a time holds the lock and that its group is removed.
func TestLockPlace(t *testing.T) {
	dir := t.TempDir()
	first, err := lockPlace(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := lockPlace(ctx, dir); !errors.Is(err, errHeld) {
		t.Errorf("waiting: %v", err)
	}
	first.release()
	var inside, most atomic.Int32
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for range 100 {
				l, err := lockPlace(t.Context(), dir)
				if err != nil {
					t.Error(err)
					return
				}
				if n := inside.Add(1); n > most.Load() {
					most.Store(n)
				}
				inside.Add(-1)
				l.release()
			}
		})
	}
	workers.Wait()
	if most.Load() != 1 {
		t.Errorf("%d had the lock at the same time", most.Load())
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v (%v)", left, err)
	}
	if _, err := lockPlace(t.Context(), filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
}

// testLockedByOthers checks that runs work while another user has locked the group in which they
// create theirs. Other users cannot open the groups of runs.
func testLockedByOthers(t *testing.T, fs *cgroup.FS) {
	parents, err := cgrouptree.FindParents(fs, cgroup.CPU)
	if err != nil {
		t.Fatal(err)
	}
	above := fs.Within(parents.Groups).Dir(cgroup.CPU, "/")
	var held *os.File
	if err := asNobody(func() (err error) { held, err = tryLock(above); return err }); err != nil {
		t.Fatalf("another user cannot lock %s: %v", above, err)
	}
	defer held.Close()
	if r, _ := run(t, order{Do: []string{"exit", "0"}}); r.ExitStatus != 0 {
		t.Errorf("%+v", r)
	}
	busy, _ := running(t, order{Do: []string{"count"}})
	found := false
	for _, dir := range groups(t) {
		if !strings.HasPrefix("/"+filepath.Base(dir), fmt.Sprintf("%s%d-", runPrefix, busy.Process.Pid)) {
			continue
		}
		found = true
		if err := asNobody(func() error { _, err := tryLock(dir); return err }); !errors.Is(err, os.ErrPermission) {
			t.Errorf("another user can open %s: %v", dir, err)
		}
		look := func() error { _, err := os.ReadFile(filepath.Join(dir, leaf, "cpu.stat")); return err }
		if err := asNobody(look); err != nil {
			t.Errorf("a command that has changed its user cannot read its limits: %v", err)
		}
	}
	if !found {
		t.Error("the run has no group")
	}
	_ = busy.Process.Signal(syscall.SIGTERM)
	_ = busy.Wait()
}

// asNobody calls do as a user without privileges, on a thread that ends afterwards. It makes the
// system calls directly, because the functions of package syscall change all threads.
func asNobody(do func() error) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked, so that the thread ends
		_, _, groups := syscall.RawSyscall(syscall.SYS_SETGROUPS, 0, 0, 0)
		_, _, group := syscall.RawSyscall(syscall.SYS_SETRESGID, nobody, nobody, nobody)
		_, _, user := syscall.RawSyscall(syscall.SYS_SETRESUID, nobody, nobody, nobody)
		if failed := cmp.Or(groups, group, user); failed != 0 {
			result <- fmt.Errorf("become another user: %w", failed)
			return
		}
		result <- do()
	}()
	return <-result
}

func TestHeldByName(t *testing.T) {
	for name, want := range map[string]error{
		"/x" + runPrefix + "1-abc":                          errHeld,
		"/x" + runPrefix + fmt.Sprint(os.Getpid()) + "-abc": nil,
		"/x" + runPrefix + "4194305-abc":                    nil, // above the kernel's largest process id
		"/x":                                                nil,
	} {
		if err := heldByName(name); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	if err := heldByName("/x" + runPrefix + "web-abc"); err == nil || errors.Is(err, errHeld) {
		t.Errorf("a run with a name without locks: %v", err)
	}
}
