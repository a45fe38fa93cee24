package sysfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/core/topology/topologytest"
	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/must"
)

// recaptured captures a tree and reads it back.
func recaptured(t testing.TB, tree fs.FS) (text string, back fs.FS) {
	t.Helper()
	archive, err := Capture(tree, "header")
	if err != nil {
		t.Fatal(err)
	}
	if back, err = ParseArchive(archive); err != nil {
		t.Fatalf("%v in\n%s", err, archive)
	}
	return string(archive), back
}

// TestCaptureFixtures captures every fixture and checks that the capture reads as the same machine
// or with the same error.
func TestCaptureFixtures(t *testing.T) {
	for name, tree := range trees(t) {
		t.Run(name, func(t *testing.T) {
			want, wantErr := Read(tree)
			if _, err := Capture(tree, ""); err != nil && wantErr != nil {
				return // more CPUs than a set holds
			}
			text, back := recaptured(t, tree)
			got, err := Read(back)
			if (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
				t.Fatalf("the capture reads with %v, the tree with %v", err, wantErr)
			}
			if want != nil && topologytest.Diff(want, got) != "" {
				t.Errorf("machine: -tree +capture:\n%s", topologytest.Diff(want, got))
			}
			if again, _ := recaptured(t, back); again != text {
				t.Errorf("the capture of a capture differs:\n%s", cmp.Diff(text, again))
			}
		})
	}
}

// trees returns the machines of the fixtures and of broken.txt.
func trees(t *testing.T) map[string]fs.FS {
	t.Helper()
	names, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(names) == 0 {
		t.Fatalf("no fixtures in testdata (%v)", err)
	}
	all := map[string]fs.FS{}
	for _, name := range names {
		all[strings.TrimSuffix(filepath.Base(name), ".txtar")] = readTree(t, name)
	}
	for _, c := range readBroken(t) {
		all["broken "+c.name] = c.tree
	}
	return all
}

// watched records which files are opened.
type watched struct {
	fs.FS
	opened map[string]bool
}

func (w watched) Open(name string) (fs.File, error) {
	w.opened[name] = true
	return w.FS.Open(name)
}

// TestCaptureTakesWhatIsRead compares the captured files of the fixtures with those that Read
// opens. Each existing file that Read opens must be in the capture, and each kind of file in a
// capture must be opened on some machine.
func TestCaptureTakesWhatIsRead(t *testing.T) {
	number := regexp.MustCompile(`(cpu|node|index)\d+`)
	kind := func(name string) string { return number.ReplaceAllString(name, "${1}N") }
	read, captured := map[string]bool{}, map[string]bool{}
	for name, tree := range trees(t) {
		opened := map[string]bool{}
		_, _ = Read(watched{tree, opened})
		if _, err := Capture(tree, ""); err != nil {
			continue // TestCaptureFixtures looks at these
		}
		_, back := recaptured(t, tree)
		for file := range opened {
			read[kind(file)] = true
			if _, err := fs.ReadFile(tree, file); err != nil {
				continue // missing, or a directory
			}
			if _, err := fs.Stat(back, file); err != nil {
				t.Errorf("%s: %s is read but not captured", name, file)
			}
		}
		for file := range writable(t, back) {
			captured[kind(file)] = true
		}
	}
	for file := range captured {
		if !read[file] && !strings.Contains(file, "/initiators/node") { // only their names are read
			t.Errorf("%s is captured but never read", file)
		}
	}
	if len(captured) < 25 {
		t.Errorf("only %d kinds of file captured", len(captured))
	}
}

// TestCaptureText shows the format of an archive, and that irrelevant files are omitted.
func TestCaptureText(t *testing.T) {
	tree := fstest.MapFS{}
	write := func(name, content string) { tree[name] = &fstest.MapFile{Data: []byte(content)} }
	for _, cpu := range []string{"cpu0", "cpu1", "cpu2"} {
		write("devices/system/cpu/"+cpu+"/topology/core_cpus_list", "0,2\n")
		write("devices/system/cpu/"+cpu+"/topology/thread_siblings_list", "0,2\n")
		write("devices/system/cpu/"+cpu+"/topology/ppin", "0x2d1a7f\n")
		write("devices/system/cpu/"+cpu+"/cache/index0/level", "1\n")
		write("devices/system/cpu/"+cpu+"/cache/index0/type", "Data\n")
		write("devices/system/cpu/"+cpu+"/cache/index0/shared_cpu_list", "0,2\n")
		write("devices/system/cpu/"+cpu+"/acpi_cppc/nominal_perf", "0\n")
	}
	write("devices/system/cpu/cpu1/topology/core_cpus_list", "1\n\x00\x00")
	write("devices/system/cpu/online", "0-2\n")
	write("devices/system/node/online", "0\n")
	write("devices/system/node/node0/meminfo", "\nNode 0 MemTotal:       2097152 kB\nNode 0 MemFree:        1024 kB\n")
	write("kernel/hostname", "secret\n")
	archive := must.Get(Capture(refusing{tree, "cpu1/acpi_cppc/nominal_perf", syscall.EIO}, "A machine.\n"))(t)
	golden.Compare(t, "testdata/capture.txt", string(archive))
}

func TestCaptureRefuses(t *testing.T) {
	if _, err := Capture(fstest.MapFS{}, ""); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no tree: %v", err)
	}
	tree := fstest.MapFS{"devices/system/cpu/online": {Data: []byte("0\n-- x --\n")}}
	if _, err := Capture(tree, ""); err == nil || !strings.Contains(err.Error(), "-- name --") {
		t.Errorf("content that divides the archive: %v", err)
	}
	tree = fstest.MapFS{"devices/system/cpu/online": {Data: []byte("0\n")}}
	if _, err := Capture(refusing{tree, "online", errors.New("disk on fire")}, ""); err == nil || !strings.Contains(err.Error(), "cpu/online: ") {
		t.Errorf("a file whose read fails without an errno: %v", err)
	}
}

func TestParseArchiveRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                                      "no line has the form",
		"{\"cpus\": []}\n":                      "no line has the form",
		"-- a{0-1 --\n":                         "no closing brace",
		"-- a{0-1}{2} --\n":                     "two lists",
		"-- a{} --\n":                           "stands for no file",
		"-- a{x} --\n":                          `a{x}`,
		"-- a{0-9999999} --\n":                  "a{0-9999999}",
		"-- a{0-1}/b --\n-- a1/b --\n":          "a1/b is there twice",
		"-- ../etc/passwd --\n":                 "../etc/passwd",
		"-- devices --\n-- devices/system --\n": "devices",
	} {
		if _, err := ParseArchive([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want it to have %q", text, err, want)
		}
	}
}

// TestCaptureProperty captures machines of any shape.
func TestCaptureProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := readable(t)
		archive := must.Get(Capture(machineTree(m), ""))(t)
		back := must.Get(ParseArchive(archive))(t)
		want := must.Get(Read(machineTree(m)))(t)
		got := must.Get(Read(back))(t)
		if diff := topologytest.Diff(want, got); diff != "" {
			t.Fatalf("-tree +capture:\n%s", diff)
		}
	})
}

// FuzzParseArchive parses any text. A tree that was parsed can be captured again.
func FuzzParseArchive(f *testing.F) {
	for _, name := range []string{"dies", "memory-only-nodes", "hybrid-counters"} {
		text := must.Get(os.ReadFile("testdata/" + name + ".txtar"))(f)
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		tree, err := ParseArchive(text)
		if err != nil {
			return
		}
		var want *topology.Machine
		if want, err = Read(tree); err != nil {
			return
		}
		if slices.ContainsFunc(txtar.Parse(text).Files, func(f txtar.File) bool { return strings.ContainsAny(f.Name, "\r\n") }) {
			return
		}
		for _, file := range []string{"/online", "/present"} {
			if cpus, _ := read(newTree(tree), cpuRoot+file, cpuset.Parse); cpus.IsEmpty() {
				return // the directories of CPUs count, and an archive has files only
			}
		}
		_, back := recaptured(t, tree)
		got := must.Get(Read(back))(t)
		if diff := topologytest.Diff(want, got); diff != "" {
			t.Errorf("-want +captured:\n%s", diff)
		}
	})
}
