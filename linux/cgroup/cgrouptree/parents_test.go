package cgrouptree

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/test/must"
)

func TestParseOwn(t *testing.T) {
	const v1 = "3:cpuset:/a\n2:cpu,cpuacct:/b/c\n1:name=systemd:/\n0::/d\n"
	for _, c := range []struct {
		text       string
		version    cgroup.Version
		controller cgroup.Controller
		want, err  string
	}{
		{v1, cgroup.V1, cgroup.CPU, "/b/c", ""}, {v1, cgroup.V1, cgroup.CPUAcct, "/b/c", ""}, {v1, cgroup.V1, cgroup.CPUSet, "/a", ""}, {v1, cgroup.V2, cgroup.CPU, "/d", ""},
		{"0::/x:y z\n", cgroup.V2, cgroup.CPU, "/x:y z", ""}, {"0::/../other\n", cgroup.V2, cgroup.CPU, "/../other", ""},
		{v1, cgroup.V1, "memory", "", "no line for version 1"}, {"", cgroup.V2, cgroup.CPU, "", "no line for version 2"},
		{"0:/x\n", cgroup.V2, cgroup.CPU, "", "is not a number"}, {"0::x\n", cgroup.V2, cgroup.CPU, "", "is not a number"},
	} {
		got, err := parseOwn(strings.NewReader(c.text), c.version, c.controller)
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%q, %s of version %d: %q, %v, want %q, %q", c.text, c.controller, c.version, got, err, c.want, c.err)
		}
	}
}

// FuzzParseOwn checks that the result is an absolute path in the text and is clean below the mount.
func FuzzParseOwn(f *testing.F) {
	f.Add("2:cpu,cpuacct:/b/c\n0::/d\n")
	f.Add("0::/../x\n:::\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, v := range []cgroup.Version{cgroup.V1, cgroup.V2} {
			got, err := parseOwn(strings.NewReader(text), v, cgroup.CPU)
			if err != nil {
				continue
			}
			if got[0] != '/' || !strings.Contains(text, got) {
				t.Errorf("%q in %q", got, text)
			}
			if below, ok := (cgroup.Hierarchy{Part: "/"}).Below(got); ok && below != filepath.Clean(below) {
				t.Errorf("%q below the mount is %q", got, below)
			}
		}
	})
}

// TestFind finds the group that lists a process. Processes of other PID namespaces are listed as 0.
func TestFind(t *testing.T) {
	h := cgroup.Hierarchy{Version: cgroup.V2, Part: "/../..", Mount: v2Tree(t, `/ cpu cpu - 0,0
		/kubepods cpu cpu domain -
		/kubepods/a cpu - domain 0,71
		/kubepods/b cpu - domain 0,7`)}
	for pid, want := range map[int]string{7: "/kubepods/b", 71: "/kubepods/a", 1: ""} {
		if got, ok, err := find(h, pid); got != want || ok != (want != "") || err != nil {
			t.Errorf("process %d: %q, %t, %v, want %q", pid, got, ok, err, want)
		}
	}
}

// TestNearest finds the group in which to create groups in version 2 trees. A line is a group, its
// controllers, the delegated ones, its type ("-" for the root) and its processes.
func TestNearest(t *testing.T) {
	me := fmt.Sprint(os.Getpid())
	for name, c := range map[string]struct {
		tree, own, want string
		alone           bool
	}{
		"root": {"/ cpu,cpuset - - 1," + me, "/", "/", false},
		"a login": {`/ cpu,cpuset cpu - 1
			/user cpu cpu domain -
			/user/session cpu - domain 7,` + me, "/user/session", "/", false},
		"a slice with both": {`/ cpu,cpuset cpu - 1
			/user cpu,cpuset - domain -
			/user/session - - domain 7,` + me, "/user/session", "/user", false},
		"alone in a scope": {`/ cpu,cpuset cpu,cpuset domain -
			/scope cpu,cpuset - domain ` + me, "/scope", "/scope", true},
		"a container with others": {"/ cpu,cpuset - domain 1," + me, "/", "", false},
		"threaded": {`/ cpu,cpuset cpu domain 1
			/scope cpu,cpuset - threaded ` + me, "/scope", "", false},
		"no cpuset": {"/ cpu cpu domain -", "/", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			h := selected{cgroup.Hierarchy{Version: cgroup.V2, Mount: v2Tree(t, c.tree)}, []cgroup.Controller{cgroup.CPU, cgroup.CPUSet}}
			got, alone, err := h.nearest(c.own)
			if got != c.want || alone != c.alone || (err == nil) != (c.want != "") {
				t.Errorf("%q, alone %t, %v; want %q, %t", got, alone, err, c.want, c.alone)
			}
			if err != nil && !strings.Contains(err.Error(), "systemd-run") {
				t.Errorf("the error does not say what to do: %v", err)
			}
		})
	}
}

// v2Tree creates directories with the files of version 2 groups.
func v2Tree(t *testing.T, text string) string {
	t.Helper()
	root := t.TempDir()
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		files := map[string]string{cgroup.ControllersFile: f[1], cgroup.SubtreeControl: f[2], cgroup.TypeFile: f[3], string(cgroup.Procs): f[4]}
		if f[0] == "/" && f[3] == "-" {
			delete(files, cgroup.TypeFile)
		}
		dir := filepath.Join(root, f[0])
		must.Do(t, os.MkdirAll(dir, 0o755))
		for name, content := range files {
			content = strings.ReplaceAll(strings.TrimPrefix(content, "-"), ",", "\n")
			must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(content+"\n"), 0o644))
		}
	}
	return root
}

func FuzzParseIDs(f *testing.F) {
	f.Add("1\n2\n")
	f.Add("-1")
	f.Fuzz(func(t *testing.T, text string) {
		ids, err := parseIDs(text)
		if err == nil && slices.ContainsFunc(ids, func(id int) bool { return id < 0 }) {
			t.Errorf("ids %d", ids)
		}
	})
}
