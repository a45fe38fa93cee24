package builds

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"

	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/need"
)

// TestInstall publishes the module in a directory and runs "go install" as a user would, with an
// empty module cache. All other modules come from this machine's cache.
func TestInstall(t *testing.T) {
	need.This(t, "a cache of modules")
	cache := strings.TrimSpace(run(t, exec.CommandContext(t.Context(), "go", "env", "GOMODCACHE")))
	for _, args := range [][]string{{"list", "-m", "all"}, {"list", "-deps", "../../cmd/pinfold"}} {
		if out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput(); err != nil {
			t.Skipf("go %s: %v: the module cache lacks modules, and no module proxy has them\n%s", strings.Join(args, " "), err, out)
		}
	}
	this := module.Version{Path: "pinfold.dev/pinfold", Version: "v0.0.1"}
	proxy, fresh, bin := t.TempDir(), t.TempDir(), t.TempDir()
	publish(t, proxy, this)

	install := exec.CommandContext(t.Context(), "go", "install", this.Path+"/cmd/pinfold@latest")
	install.Dir = t.TempDir()
	install.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-modcacherw "+makefile(t, "GOFLAGS"), "GOBIN="+bin, "GOMODCACHE="+fresh,
		"GOPROXY=file://"+proxy+",file://"+filepath.Join(cache, "cache/download"), "GOSUMDB=off", "GOPRIVATE=", "GONOPROXY=")
	run(t, install)

	if got := run(t, exec.CommandContext(t.Context(), filepath.Join(bin, "pinfold"), "version")); !strings.Contains(got, this.Version) {
		t.Errorf("the installed program has version %q, want %s", got, this.Version)
	}
	zips, size := downloaded(t, filepath.Join(fresh, "cache/download"))
	t.Logf("%d modules downloaded, %d kB", len(zips), size/1000)
	if heavy := below(zips, []string{"k8s.io/kubernetes", "k8s.io/apiserver", "go.etcd.io/etcd"}); len(heavy) > 0 {
		t.Errorf("go install downloads %s", strings.Join(heavy, ", "))
	}
	if len(below(zips, []string{"k8s.io/api"})) == 0 {
		t.Errorf("downloads are not recognised: %q", zips)
	}
}

// publish writes a version of this module to a module proxy's directory. It consists of the files
// that git has, and new ones.
func publish(t *testing.T, proxy string, version module.Version) {
	t.Helper()
	list := exec.CommandContext(t.Context(), "git", "-C", "../..", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if out, err := exec.CommandContext(t.Context(), "git", "-C", "../..", "rev-parse").CombinedOutput(); err != nil {
		t.Skipf("this is not a git repository, so the files of a release are not known: %s", out)
	}
	var files []zip.File
	for name := range strings.SplitSeq(strings.TrimSuffix(run(t, list), "\x00"), "\x00") {
		if _, err := os.Lstat(file(name).path()); err == nil { // deleted, and not yet committed
			files = append(files, file(name))
		}
	}
	dir := filepath.Join(proxy, version.Path, "@v")
	must.Do(t, os.MkdirAll(dir, 0o755))
	base := filepath.Join(dir, version.Version)
	archive := must.Get(os.Create(base + ".zip"))(t)
	must.Do(t, zip.Create(archive, version, files))
	must.Do(t, archive.Close())
	must.Do(t, os.WriteFile(filepath.Join(dir, "list"), []byte(version.Version+"\n"), 0o644))
	must.Do(t, os.WriteFile(base+".mod", must.Get(os.ReadFile("../../go.mod"))(t), 0o644))
	must.Do(t, os.WriteFile(base+".info", fmt.Appendf(nil, `{"Version":%q}`, version.Version), 0o644))
}

// file is a file of the repository, by its path there.
type file string

func (f file) path() string                 { return filepath.Join("../..", string(f)) }
func (f file) Path() string                 { return string(f) }
func (f file) Lstat() (os.FileInfo, error)  { return os.Lstat(f.path()) }
func (f file) Open() (io.ReadCloser, error) { return os.Open(f.path()) }

// downloaded returns the paths of the modules whose source is in a download cache, and its size in
// bytes.
func downloaded(t *testing.T, dir string) (modules []string, size int64) {
	t.Helper()
	must.Do(t, fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, ".zip") {
			return err
		}
		escaped, _, _ := strings.Cut(name, "/@v/")
		path, err := module.UnescapePath(escaped)
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		modules, size = append(modules, path), size+info.Size()
		return nil
	}))
	return modules, size
}
