package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// look is the time between two looks whether a lock is free.
const look = 200 * time.Millisecond

// lock takes a lock that one suite on this machine has at a time, and waits for it. Otherwise, two
// runs would measure each other, or start two real nodes. The lock ends with the process.
func lock(ctx context.Context, file string, out io.Writer) (unlock func(), err error) {
	f, err := os.OpenFile(file, os.O_RDONLY|os.O_CREATE, 0o666)
	if errors.Is(err, os.ErrPermission) { // of another user, in a directory like /tmp
		f, err = os.Open(file)
	}
	if err != nil {
		return nil, err
	}
	for reported := false; ; reported = true {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() {
				_ = f.Close()        // it was only read
				time.Sleep(2 * look) // another run has its turn
			}, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", file, err), f.Close())
		}
		if !reported {
			fmt.Fprintf(out, "waiting for another run on this machine, which has %s\n", file)
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("interrupted while waiting for %s: %w", file, ctx.Err()), f.Close())
		case <-time.After(look):
		}
	}
}

// machineLock is the lock for units that use the whole machine.
func machineLock() string { return filepath.Join(os.TempDir(), "pinfold-suite.lock") }
