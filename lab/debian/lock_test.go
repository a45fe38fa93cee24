package debian

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestLock checks the lock of this package.
func TestLock(t *testing.T) {
	lock, err := Locked()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(lock.names(), " "), "nginx apache2 wrk ffmpeg"; got != want {
		t.Errorf("programs %s, want %s", got, want)
	}
	if !regexp.MustCompile(`^\d{8}T\d{6}Z$`).MatchString(lock.Snapshot) {
		t.Errorf("snapshot %q is not a time", lock.Snapshot)
	}
	if !strings.HasSuffix(lockFile, lock.String()) {
		t.Error("the lock file is not as Lock.String writes it, below the comments")
	}
	all := map[string]Package{}
	for _, program := range lock.Programs {
		for _, name := range []string{"libc6", "libgcc-s1"} {
			if !slices.ContainsFunc(program.Packages, func(p Package) bool { return p.Name == name }) {
				t.Errorf("%s: package %s is missing", program.Name, name)
			}
		}
		for _, p := range program.Packages {
			if other, ok := all[p.Name]; ok && other != p {
				t.Errorf("%s is locked as %v and as %v", p.Name, other, p)
			}
			all[p.Name] = p
			checkPackage(t, p)
		}
	}
}

// checkPackage checks what [ParseLock] does not: the conventions of Debian's mirrors.
func checkPackage(t *testing.T, p Package) {
	t.Helper()
	if p.Architecture != Architecture && p.Architecture != "all" {
		t.Errorf("%s is for %s", p.Name, p.Architecture)
	}
	_, version, found := strings.Cut(p.Version, ":")
	if !found {
		version = p.Version
	}
	if want := p.Name + "_" + version + "_" + p.Architecture + ".deb"; path.Base(p.Path) != want || !strings.HasPrefix(p.Path, "pool/main/") {
		t.Errorf("%s has the path %s, want pool/main/.../%s", p.Name, p.Path, want)
	}
	if p.SHA256 != strings.ToLower(p.SHA256) {
		t.Errorf("%s: digest %s has capital letters", p.Name, p.SHA256)
	}
}

// TestParseLockErrors changes a good lock and says what the error contains.
func TestParseLockErrors(t *testing.T) {
	digest := strings.Repeat("0a", 32)
	good := "snapshot 20260101T000000Z\n# comment\n\nprogram x usr/bin/x usr/lib\n" +
		"a 1 all " + digest + " 10 pool/main/a_1_all.deb\nb 1 all " + digest + " 10 pool/main/b_1_all.deb\n"
	lock, err := ParseLock(strings.NewReader(good))
	if err != nil || len(lock.Programs) != 1 || len(lock.Programs[0].Packages) != 2 {
		t.Fatalf("lock %+v (%v)", lock, err)
	}
	for _, test := range []struct{ old, replacement, says string }{
		{"b 1", "a 1", "line 6: package a of x comes after a"},
		{"b 1", "A 1", "sort"},
		{"all", "", "5 fields"},
		{" 10 ", " -1 ", "size"},
		{" 10 ", " 0 ", "size"},
		{digest, digest[1:], "SHA-256"},
		{digest, digest + "00", "SHA-256"},
		{"pool/main/a", "pool/../a", "path"},
		{"pool/main/a", "/etc/a", "path"},
		{".deb", ".tar", "path"},
		{"program x usr/bin/x usr/lib\n", "", "before the first program"},
		{"usr/bin/x usr/lib", "usr/bin/x", "fields"},
	} {
		_, err := ParseLock(strings.NewReader(strings.Replace(good, test.old, test.replacement, 1)))
		if err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%q for %q: error %v, want %q", test.replacement, test.old, err, test.says)
		}
	}
}

// FuzzParseLock checks that a lock that is read is written in the same way.
func FuzzParseLock(f *testing.F) {
	f.Add(lockFile)
	f.Add("program x usr/bin/x usr/lib\na 1 all " + strings.Repeat("0a", 32) + " 10 pool/main/a_1_all.deb\n")
	f.Fuzz(func(t *testing.T, text string) {
		lock, err := ParseLock(strings.NewReader(text))
		if err != nil || lock.Snapshot == "" {
			return
		}
		again, err := ParseLock(strings.NewReader(lock.String()))
		if err != nil || again.String() != lock.String() {
			t.Errorf("written as %q, read as %q (%v)", lock.String(), again.String(), err)
		}
	})
}
