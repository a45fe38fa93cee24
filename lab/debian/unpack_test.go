package debian

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// entry is an entry of an archive: a file with content, or what its header says.
type entry struct {
	tar.Header
	content string
}

func file(name, content string) entry {
	return entry{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755, Size: int64(len(content))}, content}
}

func dir(name string) entry {
	return entry{tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o555}, ""}
}

func symlink(name, target string) entry {
	return entry{tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target}, ""}
}

func hardlink(name, target string) entry {
	return entry{tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: target}, ""}
}

// archive returns a .deb file.
func archive(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var data bytes.Buffer
	w := tar.NewWriter(&data)
	for _, e := range entries {
		if err := w.WriteHeader(&e.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(e.content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return []byte("!<arch>\n" + member("debian-binary", "2.0\n") + member("control.tar", "") + member("data.tar", data.String()))
}

// member returns a member of an ar archive.
func member(name, content string) string {
	if len(content)%2 == 1 {
		defer func() { content += "\n" }()
	}
	return fmt.Sprintf("%-16s%-12d%-6d%-6d%-8s%-10d`\n", name, 0, 0, 0, "100644", len(content)) + content
}

// unpackInto unpacks a package into a new directory below dir.
func unpackInto(t *testing.T, deb []byte) (string, error) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "root")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	return dir, Unpack(root, bytes.NewReader(deb))
}

// TestUnpack unpacks what Debian's packages contain. All links lead to files of the root.
func TestUnpack(t *testing.T) {
	secret := file("./etc/secret", "x")
	secret.Mode = 0
	root, err := unpackInto(t, archive(t,
		dir("./"), dir("./lib/"), dir("./lib/x86_64-linux-gnu/"), dir("./usr/"), dir("./usr/share/"),
		file("./lib/x86_64-linux-gnu/ld.so", "loader"),
		symlink("./lib64/ld-linux.so.2", "/lib/x86_64-linux-gnu/ld.so"),
		symlink("./usr/share/relative", "../lib/x86_64-linux-gnu"),
		file("./usr/share/relative/libx.so.1", "library"),
		hardlink("./usr/share/hard", "./lib/x86_64-linux-gnu/libx.so.1"),
		symlink("./usr/share/absolute", "/etc/x"),
		file("./etc/x", "configuration"), secret,
	))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"lib64/ld-linux.so.2":                "loader",
		"usr/lib64/ld-linux.so.2":            "loader",
		"usr/lib/x86_64-linux-gnu/libx.so.1": "library",
		"lib/x86_64-linux-gnu/libx.so.1":     "library",
		"usr/share/hard":                     "library",
		"usr/share/absolute":                 "configuration",
	} {
		if got, err := os.ReadFile(filepath.Join(root, name)); string(got) != want {
			t.Errorf("%s contains %q (%v), want %q", name, got, err, want)
		}
		if path, err := filepath.EvalSymlinks(filepath.Join(root, name)); !strings.HasPrefix(path, root+"/") {
			t.Errorf("%s is %s (%v), outside the root", name, path, err)
		}
	}
	for name, want := range map[string]fs.FileMode{"usr/share": 0o755 | fs.ModeDir, "etc/x": 0o755, "etc/secret": 0o400} {
		if info, err := os.Stat(filepath.Join(root, name)); err != nil || info.Mode() != want {
			t.Errorf("%s: %v (%v), want %v", name, info, err, want)
		}
	}
}

// TestUnpackRejects says for archives that no Debian mirror has what the error contains. Nothing
// appears outside the root.
func TestUnpackRejects(t *testing.T) {
	setUID := file("usr/bin/su", "x")
	setUID.Mode = 0o4755
	for name, test := range map[string]struct {
		says    string
		entries []entry
	}{
		"absolute path":       {"leads out", []entry{file("/evil", "x")}},
		"parent":              {"leads out", []entry{file("../evil", "x")}},
		"parent inside":       {"leads out", []entry{file("usr/../../evil", "x")}},
		"link out":            {"leads out", []entry{symlink("a", "../evil")}},
		"link out, deep":      {"leads out", []entry{symlink("usr/share/a", "../../../evil")}},
		"absolute link out":   {"leads out", []entry{symlink("a", "/../evil")}},
		"empty link":          {"leads out", []entry{symlink("a", "")}},
		"below a link":        {"not a directory", []entry{symlink("usr/share/a", "../.."), symlink("usr/share/a/b", "../../evil")}},
		"hard link out":       {"leads out", []entry{hardlink("a", "../evil")}},
		"hard link to /":      {"leads out", []entry{hardlink("a", "/etc/passwd")}},
		"through a file":      {"exists", []entry{file("a", "x"), file("a/b", "x")}},
		"file twice":          {"exists", []entry{file("a", "x"), file("a", "y")}},
		"file over link":      {"exists", []entry{symlink("a", "b"), file("a", "x")}},
		"directory over file": {"exists", []entry{file("a", "x"), dir("a")}},
		"merged directory":    {"exists", []entry{file("usr/bin/x", "x"), file("bin/x", "y")}},
		"device":              {"not supported", []entry{{tar.Header{Typeflag: tar.TypeChar, Name: "null", Devmajor: 1, Devminor: 3}, ""}}},
		"named pipe":          {"not supported", []entry{{tar.Header{Typeflag: tar.TypeFifo, Name: "pipe"}, ""}}},
	} {
		t.Run(name, func(t *testing.T) {
			root, err := unpackInto(t, archive(t, test.entries...))
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("error %v, want %q", err, test.says)
			}
			if found, err := os.ReadDir(filepath.Dir(root)); err != nil || len(found) != 1 {
				t.Errorf("beside the root: %v (%v)", found, err)
			}
		})
	}
	root, err := unpackInto(t, archive(t, setUID))
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(root, "usr/bin/su")); err != nil || info.Mode() != 0o755 {
		t.Errorf("a set-user-ID file: %v (%v)", info, err)
	}
}

// TestUnpackThroughLinks checks that a link made outside Unpack does not lead it out of the root.
func TestUnpackThroughLinks(t *testing.T) {
	outside, inside := t.TempDir(), t.TempDir()
	if err := os.Symlink(outside, filepath.Join(inside, "link")); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(inside)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for _, e := range []entry{file("link/evil", "x"), dir("link/evil"), symlink("link/evil", "x"), hardlink("link/evil", "link")} {
		if err := Unpack(root, bytes.NewReader(archive(t, e))); err == nil {
			t.Errorf("%c %s is unpacked", e.Typeflag, e.Name)
		}
	}
	if found, err := os.ReadDir(outside); err != nil || len(found) > 0 {
		t.Errorf("outside the root: %v (%v)", found, err)
	}
}

// TestUnpackDamaged says for files that are no packages what the error contains.
func TestUnpackDamaged(t *testing.T) {
	whole := archive(t, file("usr/bin/x", strings.Repeat("x", 10_000)))
	negative := bytes.Replace(whole, []byte("4         `\n"), []byte("-60       `\n"), 1)
	for says, deb := range map[string][]byte{
		"header":         []byte("not an archive"),
		"no data.tar":    []byte("!<arch>\n" + member("debian-binary", "2.0\n")),
		"has size -60":   negative,
		"unexpected EOF": whole[:len(whole)-8000],
		"tar header":     []byte("!<arch>\n" + member("data.tar", strings.Repeat("x", 1024))),
		"format":         []byte("!<arch>\n" + member("data.tar.xz", strings.Repeat("x", 1024))),
	} {
		if _, err := unpackInto(t, deb); err == nil || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(says)) {
			t.Errorf("error %v, want %q", err, says)
		}
	}
}
