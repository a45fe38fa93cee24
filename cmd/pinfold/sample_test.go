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
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgroupstat"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/tracefile"
)

// group makes a control group on this machine, with a quota of 10 ms in each 50 ms, and removes it
// after the test.
func group(t *testing.T) (*cgroup.FS, string) {
	t.Helper()
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

// TestSampleThrottled records a group that wants a CPU and gets a fifth of one: the file contains
// what the kernel counted meanwhile.
func TestSampleThrottled(t *testing.T) {
	fs, name := group(t)
	spin(t, fs, name)
	before := must.Get(cgroupstat.Read(fs, name))(t)
	file := filepath.Join(t.TempDir(), "a.parquet")
	var stdout, stderr bytes.Buffer
	args := []string{"sample", fs.Dir(cgroup.CPU, name), "--duration", "2s", "-o", file}
	if err := frame.Run(t.Context(), newRoot("pinfold"), args, nil, &stdout, &stderr); err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	after := must.Get(cgroupstat.Read(fs, name))(t)
	rec, _, err := tracefile.Read(file, 0)
	if err != nil {
		t.Fatal(err)
	}
	if rec.Interval != 10*time.Millisecond || len(rec.Series) != 1 || rec.Series[0].Group != name {
		t.Fatalf("interval %v, %d series, want the group at a fifth of its period", rec.Interval, len(rec.Series))
	}
	sum := trace.Summarise(&rec.Series[0], rec.Interval)
	t.Logf("%+v", sum)
	if sum.Usage > after.Usage-before.Usage || sum.Throttled > after.Throttled-before.Throttled || sum.Periods > after.Periods-before.Periods {
		t.Errorf("more was recorded than the kernel counted: %+v to %+v", before, after)
	}
	// Even on a busy machine it wanted more than it got, and a late sample loses nothing.
	if sum.Throttled == 0 || sum.Usage == 0 || sum.ThrottledShare == 0 || sum.Time < 1500*time.Millisecond {
		t.Errorf("nothing was throttled: %+v", sum)
	}
	if limit, _ := sum.Limits.CPUs(); limit != 0.2 {
		t.Errorf("the limit is %v CPUs, want 0.2", limit)
	}
	for _, want := range []string{"limit      0.20 CPUs: 10ms in each 50ms", "they show usage, demand was higher", "of the limit)"} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("the summary has no %q:\n%s", want, &stdout)
		}
	}
}

// TestSampleFullDisk records until a small disk is full: the recording ends with an error that
// names the journal, which can be recovered on another disk.
func TestSampleFullDisk(t *testing.T) {
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
