package localcluster

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
)

func TestOneHolderPerDirectory(t *testing.T) {
	dir := t.TempDir()
	if pid, err := holder(dir); pid != 0 || err != nil {
		t.Errorf("holder of a fresh directory = %d, %v", pid, err)
	}
	lock, err := lockDirectory(dir)
	if err != nil {
		t.Fatal(err)
	}
	if pid, err := holder(dir); pid != os.Getpid() || err != nil {
		t.Errorf("holder = %d, %v; want %d", pid, err, os.Getpid())
	}
	_, err = lockDirectory(dir)
	if !errors.Is(err, ErrRunning) || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) || !strings.Contains(err.Error(), dir) {
		t.Errorf("second lock: %v; want %v with directory and pid", err, ErrRunning)
	}
	lock.release()
	if pid, err := holder(dir); pid != 0 || err != nil {
		t.Errorf("holder after release = %d, %v", pid, err)
	}
	if lock, err = lockDirectory(dir); err != nil {
		t.Fatalf("lock after release: %v", err)
	}
	lock.release()
}

// A holder that removes the lock file in the end must not leave two others,
// one with the old file and one with a new one, who both think they have it.
func TestLockFileIsRemovedByItsHolder(t *testing.T) {
	dir := t.TempDir()
	var inside, most, locked int
	var mu sync.Mutex
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for range 200 {
				lock, err := lockDirectory(dir)
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
				// The last thing that a holder does.
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
