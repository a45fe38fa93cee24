//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/cmd/internal/frame"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/need"
	"pinfold.dev/pinfold/tracefile"
)

// group makes a control group on this machine, with a quota of 10 ms in each 50 ms, and removes it
// after the test.
func group(t *testing.T) (*cgroup.FS, string) {
	t.Helper()
	need.This(t, "control groups of this machine")
	quota, period := 10*time.Millisecond, 50*time.Millisecond
	if os.Getuid() != 0 {
		t.Skip("making a control group needs root: run the test as root")
	}
	fs, err := cgroup.Open("/")
	if err != nil {
		t.Skipf("no control groups: %v", err)
	}
	if fs.Layout().CPU != cgroup.V1 {
		t.Skip("the test makes groups of version 1; version 2 is tested by sample.txtar and linux/sampler")
	}
	name := fmt.Sprintf("/pinfold-sample-%d", os.Getpid())
	for _, c := range []cgroup.Controller{cgroup.CPU, cgroup.CPUAcct} {
		dir := fs.Dir(c, name)
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			t.Skipf("no control group can be made (%v): run the test where that is allowed", err)
		}
		t.Cleanup(func() {
			if err := os.Remove(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Errorf("remove %s: %v", dir, err)
			}
		})
	}
	for file, value := range map[string]time.Duration{"cpu.cfs_period_us": period, "cpu.cfs_quota_us": quota} {
		text := fmt.Sprint(value.Microseconds())
		must.Do(t, os.WriteFile(filepath.Join(fs.Dir(cgroup.CPU, name), file), []byte(text), 0o600))
	}
	return fs, name
}

// spin runs a busy loop in a group until the test ends.
func spin(t *testing.T, fs *cgroup.FS, name string) {
	t.Helper()
	command := exec.Command("sh", "-c", "read go; while :; do :; done")
	in := must.Get(command.StdinPipe())(t)
	must.Do(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	for _, c := range []cgroup.Controller{cgroup.CPU, cgroup.CPUAcct} {
		must.Do(t, os.WriteFile(filepath.Join(fs.Dir(c, name), "cgroup.procs"), fmt.Append(nil, command.Process.Pid), 0o600))
	}
	must.Get(io.WriteString(in, "go\n"))(t)
}

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
