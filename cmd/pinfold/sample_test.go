//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/need"
	"pinfold.dev/pinfold/tracefile"
)

// TestSampleFullDisk records until a small disk is full: the recording ends with an error that
// names the journal, which can be recovered on another disk.
func TestSampleFullDisk(t *testing.T) {
	need.This(t, "a file system of its own")
	if os.Getuid() != 0 {
		t.Skip("mounting a small file system needs root: run the test as root")
	}
	if _, err := cgroup.Open("/"); err != nil {
		t.Skipf("no control groups: %v", err)
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("no small file system can be mounted (%v): run the test where mount(2) is allowed", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var stdout, stderr bytes.Buffer
	file := filepath.Join(dir, "a.csv")
	err := frame.Run(ctx, newRoot("pinfold"), []string{"sample", "/", "--interval", "1ms", "-o", file}, nil, &stdout, &stderr)
	if !errors.Is(err, syscall.ENOSPC) || frame.ExitStatus(err) != 1 {
		t.Fatalf("error %v, want %v\n%s", err, syscall.ENOSPC, &stderr)
	}
	for _, want := range []string{"the recording stops after ", "pinfold trace recover " + file + ".journal -o FILE"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %q, want one with %q", err, want)
		}
	}
	if !strings.Contains(stdout.String(), "group      /\n") {
		t.Errorf("no summary of what was recorded:\n%s", &stdout)
	}
	elsewhere := filepath.Join(t.TempDir(), "a.parquet")
	stderr.Reset()
	must.Do(t, frame.Run(t.Context(), newRoot("pinfold"), []string{"trace", "recover", file + ".journal", "-o", elsewhere}, nil, io.Discard, &stderr))
	rec, _, err := tracefile.Read(elsewhere, 0)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(rec.Series[0].Samples); n < 100 {
		t.Errorf("%d samples are left, want those of some seconds", n)
	}
}
