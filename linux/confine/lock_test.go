package confine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
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
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := lock(ctx, dir); !errors.Is(err, errHeld) {
		t.Errorf("waiting: %v", err)
	}
	first.Close()
	again, err := lock(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
	if _, err := lock(t.Context(), filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
}

func TestHeldByName(t *testing.T) {
	for name, want := range map[string]error{
		"/x" + runPrefix + "1-abc":                          errHeld,
		"/x" + runPrefix + fmt.Sprint(os.Getpid()) + "-abc": nil,
		"/x" + runPrefix + "4194305-abc":                    nil, // above the kernel's largest
		"/x":                                                nil,
	} {
		if err := heldByName(name); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
}
