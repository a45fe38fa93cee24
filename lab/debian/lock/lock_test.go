package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pinfold.dev/pinfold/lab/debian"
)

// library returns an ELF file that needs other libraries.
func library(t *testing.T, needed ...string) []byte {
	t.Helper()
	names := "\x00"
	var dynamic []elf.Dyn64
	for _, name := range needed {
		dynamic = append(dynamic, elf.Dyn64{Tag: int64(elf.DT_NEEDED), Val: uint64(len(names))})
		names += name + "\x00"
	}
	dynamic = append(dynamic, elf.Dyn64{Tag: int64(elf.DT_NULL)})
	const headerSize, sectionSize = 64, 64
	end := uint64(headerSize + 3*sectionSize)
	header := elf.Header64{
		Ident: [16]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: uint32(elf.EV_CURRENT),
		Shoff: headerSize, Ehsize: headerSize, Shentsize: sectionSize, Shnum: 3, Shstrndx: 1,
	}
	sections := []elf.Section64{
		{},
		{Type: uint32(elf.SHT_STRTAB), Off: end, Size: uint64(len(names))},
		{Type: uint32(elf.SHT_DYNAMIC), Off: end + uint64(len(names)), Size: uint64(16 * len(dynamic)), Link: 1, Entsize: 16},
	}
	var out bytes.Buffer
	for _, part := range []any{header, sections, []byte(names), dynamic} {
		if err := binary.Write(&out, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

// mirror is a mirror with its list of packages.
type mirror struct {
	list  string
	files map[string][]byte
}

// add adds a package with one file.
func (m *mirror) add(t *testing.T, name, version, depends, file string, content []byte) {
	t.Helper()
	var data bytes.Buffer
	w := tar.NewWriter(&data)
	if err := w.WriteHeader(&tar.Header{Name: file, Mode: 0o755, Size: int64(len(content))}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	deb := fmt.Sprintf("!<arch>\n%-16s%-12d%-6d%-6d%-8s%-10d`\n%s", "data.tar", 0, 0, 0, "100644", data.Len(), &data)
	digest := sha256.Sum256([]byte(deb))
	path := "pool/main/" + name + "_" + version + "_amd64.deb"
	m.files["/"+path] = []byte(deb)
	m.list += fmt.Sprintf("Package: %s\nVersion: %s\nArchitecture: amd64\nDepends: %s\nDescription: text\n of more lines\nFilename: %s\nSize: %d\nSHA256: %s\n\n",
		name, version, depends, path, len(deb), hex.EncodeToString(digest[:]))
}

func (m *mirror) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = w.Write(m.files[r.URL.Path]) // the client checks what it gets
}

// TestResolve finds libraries of libraries, in several directories, and of plugins. It leaves out a
// package that nothing needs, and chooses the latest version.
func TestResolve(t *testing.T) {
	m := &mirror{files: map[string][]byte{}}
	m.add(t, "web", "1", "liba (>= 1), unused", "./usr/bin/web", library(t, "liba.so.1"))
	m.add(t, "web-plugin", "1", "libp", "./usr/lib/web/plugin.so", library(t, "libp.so.1"))
	m.add(t, "liba", "1.9", "libc6", "./lib/x86_64-linux-gnu/liba.so.1", library(t, "libold.so"))
	m.add(t, "liba", "1.10", "libc6, libother | libvirtual", "./lib/x86_64-linux-gnu/liba.so.1", library(t, "libc.so.6"))
	m.add(t, "libp", "1", "libc6", "./usr/lib/x86_64-linux-gnu/private/libp.so.1", library(t))
	m.add(t, "libother", "1", "libc6", "./lib/x86_64-linux-gnu/libc.so.6", library(t))
	m.add(t, "libc6", "2", "", "./lib64/ld-linux.so.2", library(t))
	m.add(t, "orphan", "1", "", "./usr/bin/orphan", library(t, "libp.so.1"))
	m.add(t, "unused", "1", "", "./usr/lib/x86_64-linux-gnu/libunused.so", library(t))
	server := httptest.NewServer(m)
	defer server.Close()
	t.Setenv(debian.MirrorVariable, server.URL)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	index, err := parseIndex(strings.NewReader(m.list))
	if err != nil {
		t.Fatal(err)
	}
	g := goal{name: "web", executable: "usr/bin/web", packages: []string{"web", "web-plugin"}, plugins: []string{"usr/lib/web/plugin.so"}}
	program, err := resolve(t.Context(), g, index, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range program.Packages {
		got = append(got, p.Name+" "+p.Version)
	}
	if diff := cmp.Diff([]string{"liba 1.10", "libother 1", "libp 1", "web 1", "web-plugin 1"}, got); diff != "" {
		t.Errorf("packages (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{libraryDir, libraryDir + "/private"}, program.Libraries); diff != "" {
		t.Errorf("directories (-want +got):\n%s", diff)
	}
	for says, g := range map[string]goal{
		"libp.so.1 is in none":     {executable: "usr/bin/orphan", packages: []string{"orphan"}},
		"contains usr/bin/nothing": {executable: "usr/bin/nothing", packages: []string{"web"}},
		"emacs is not in the list": {executable: "usr/bin/emacs", packages: []string{"emacs"}},
	} {
		if _, err := resolve(t.Context(), g, index, io.Discard); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("error %v, want %q", err, says)
		}
	}
}

// TestLockHasGoals checks that the lock was made for the goals of this version.
func TestLockHasGoals(t *testing.T) {
	lock, err := debian.Locked()
	if err != nil {
		t.Fatal(err)
	}
	if len(lock.Programs) != len(goals()) {
		t.Errorf("the lock has %d programs, want %d", len(lock.Programs), len(goals()))
	}
	for _, g := range goals() {
		p, err := lock.Program(g.name)
		if err != nil {
			t.Fatal(err)
		}
		if p.Executable != g.executable {
			t.Errorf("%s: executable %s, want %s", g.name, p.Executable, g.executable)
		}
		for _, name := range g.packages {
			if !slices.ContainsFunc(p.Packages, func(p debian.Package) bool { return p.Name == name }) {
				t.Errorf("%s: package %s is not locked", g.name, name)
			}
		}
	}
}

// TestRunErrors says for wrong input what the error contains.
func TestRunErrors(t *testing.T) {
	const at = "--snapshot=20260712T000000Z"
	for _, test := range []struct{ flag, stdin, says string }{
		{"--snapshot=today", "", "YYYYMMDD"},
		{at, "", "is empty"},
		{at, "Package: a\nVersion: 1\nSize: many\n", "size"},
		{at, "Package: a\nVersion: 1:\nSize: 1\n", "version"},
		{at, "Package: a\nVersion: 1\nSize: 1\nDepends: a (\n", "dependencies"},
		{at, "Package: a\nVersion: 1\nSize: 1\n", "nginx"},
	} {
		var out bytes.Buffer
		err := run(t.Context(), []string{test.flag}, strings.NewReader(test.stdin), &out, io.Discard)
		if err == nil || !strings.Contains(err.Error(), test.says) || out.Len() > 0 {
			t.Errorf("%q: error %v, want %q; output %q", test.stdin, err, test.says, &out)
		}
	}
}
