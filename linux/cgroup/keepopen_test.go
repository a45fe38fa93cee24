package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/test/must"
)

// testHostKeepOpen checks which files of a group this process has open.
func testHostKeepOpen(t *testing.T, top string) {
	fs := must.Get(Open("/"))(t)
	fs.KeepOpen()
	group := top + "/pod/container"
	read := func() Settings {
		t.Helper()
		return must.Get(fs.Read(group))(t)
	}
	expectOpen := func(what string, expected bool) {
		t.Helper()
		if open := openBelow(t, top); (len(open) > 0) != expected {
			t.Errorf("%s: open are %q", what, open)
		}
	}
	expectOpen("before any reading", false)
	read()
	must.Get(fs.read(group, map[Version]File{V1: Tasks, V2: Threads}[fs.layout.CPUSet]))(t)
	expectOpen("after reading", true)
	for _, name := range openBelow(t, top) {
		if base := filepath.Base(name); base == string(Tasks) || base == string(Threads) {
			t.Errorf("%s is kept open and may return an old list", name)
		}
	}
	fs.CloseUnused()
	expectOpen("after a round with reading", true)
	quota := 30 * time.Millisecond
	must.Do(t, fs.Apply(map[string]Wanted{group: {Quota: &quota}}).Err())
	if s := read(); s.Quota != quota {
		t.Errorf("an open file reads quota %v after %v was written", s.Quota, quota)
	}

	for _, dir := range dirsOf(fs, group) {
		removeGroup(t, dir)
	}
	if _, err := fs.Read(group); !errors.Is(err, ErrGone) {
		t.Errorf("reading a removed group: %v", err)
	}
	makeGroup(t, fs, group)
	if s := read(); s.Quota != bandwidth.Unlimited {
		t.Errorf("the quota of a new group of the same name is %v, that of the old one", s.Quota)
	}
	fs.CloseUnused()
	fs.CloseUnused()
	expectOpen("after a round without reading", false)

	fs.open.limit = 2
	read()
	if open := openBelow(t, top); len(open) != 2 {
		t.Errorf("with a limit of 2, open are %q", open)
	}
	fs.Close()
	expectOpen("after closing", false)
	read()
	expectOpen("read after closing", false)
}

// openBelow lists the files of a group that this process has open.
func openBelow(t *testing.T, group string) (names []string) {
	t.Helper()
	fds := must.Get(os.ReadDir("/proc/self/fd"))(t)
	for _, fd := range fds {
		name, err := os.Readlink("/proc/self/fd/" + fd.Name())
		if err == nil && strings.Contains(name, group+"/") {
			names = append(names, name)
		}
	}
	return names
}
