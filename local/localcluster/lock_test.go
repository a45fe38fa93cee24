package localcluster

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/test/must"
)

func TestOneHolderPerDirectory(t *testing.T) {
	dir := t.TempDir()
	if pid, err := holder(dir); pid != 0 || err != nil {
		t.Errorf("holder of a fresh directory = %d, %v", pid, err)
	}
	lock, err := claimAndLock(dir)
	if err != nil {
		t.Fatal(err)
	}
	if pid, err := holder(dir); pid != os.Getpid() || err != nil {
		t.Errorf("holder = %d, %v; want %d", pid, err, os.Getpid())
	}
	_, err = claimAndLock(dir)
	if !errors.Is(err, ErrRunning) || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) || !strings.Contains(err.Error(), dir) {
		t.Errorf("second lock: %v; want %v with directory and pid", err, ErrRunning)
	}
	lock.release()
	if pid, err := holder(dir); pid != 0 || err != nil {
		t.Errorf("holder after release = %d, %v", pid, err)
	}
	if lock, err = claimAndLock(dir); err != nil {
		t.Fatalf("lock after release: %v", err)
	}
	lock.release()
}

// TestHolderRemovesLockFile checks that two processes never hold the lock at once, one with the
// file that the last holder removed and one with a new file.
func TestHolderRemovesLockFile(t *testing.T) {
	dir := t.TempDir()
	var inside, most, locked int
	var mu sync.Mutex
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for range 200 {
				lock, err := claimAndLock(dir)
				if errors.Is(err, ErrRunning) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				inside++
				locked++
				most = max(most, inside)
				mu.Unlock()
				mu.Lock()
				inside--
				mu.Unlock()
				// The last step of a holder.
				if err := os.Remove(layout{dir}.path(lockName)); err != nil {
					t.Error(err)
				}
				lock.release()
			}
		})
	}
	workers.Wait()
	if most != 1 || locked == 0 {
		t.Errorf("%d held the lock at once, %d times in all", most, locked)
	}
}

// TestCopyIsRejected checks that a claimed directory can be renamed, and that a copy of it is
// rejected.
func TestCopyIsRejected(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cluster")
	quiet := quiet()
	for range 2 { // the second time it exists
		must.Do(t, Claim(dir))
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v; want a private directory", info, err)
	}
	time.Sleep(20 * time.Millisecond) // birth times have the resolution of the kernel's tick
	stolen := dir + "-copy"
	must.Do(t, os.CopyFS(stolen, os.DirFS(dir)))
	must.Do(t, errors.Join(os.Chmod(stolen, 0o700), os.Chmod(filepath.Join(stolen, lockName), 0o600)))
	for what, err := range map[string]error{
		"claim": Claim(stolen), "remove": second(Remove(stolen, quiet)), "shutdown": Shutdown(t.Context(), stolen), "state": second(ReadState(stolen)),
	} {
		if !errors.Is(err, errNotMade) {
			t.Errorf("%s of a copy: %v", what, err)
		}
	}
	moved := dir + "-moved"
	must.Do(t, os.Rename(dir, moved))
	if removed, err := Remove(moved, quiet); !removed || err != nil {
		t.Errorf("Remove = %v, %v", removed, err)
	}
	if removed, err := Remove(moved, quiet); removed || err != nil {
		t.Errorf("the second time: Remove = %v, %v", removed, err)
	}
}

// TestMountsAreKept checks that Remove does not touch what is mounted in a data directory.
func TestMountsAreKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cluster")
	must.Do(t, Claim(dir))
	data := t.TempDir()
	letter := filepath.Join(data, "letter")
	point := layout{dir}.path("etcd")
	must.Do(t, errors.Join(os.WriteFile(letter, []byte("dear"), 0o600), os.Mkdir(point, 0o700)))
	if err := unix.Mount(data, point, "", unix.MS_BIND, ""); err != nil {
		t.Skipf("needs the right to mount: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(point, unix.MNT_DETACH) })
	if _, err := Remove(dir, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "unmount it first") {
		t.Errorf("error %v, want one that names the mount", err)
	}
	if _, err := os.Stat(letter); err != nil {
		t.Error(err)
	}
}

func second[T any](_ T, err error) error { return err }
