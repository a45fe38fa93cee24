package debian

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"
)

// checkInstalled checks that a root has the files of a program of a pool, and that nothing else is
// left in its cache.
func checkInstalled(t *testing.T, root Root) {
	t.Helper()
	for _, pkg := range root.Program.Packages {
		for _, name := range []string{"usr/share/" + pkg.Name, "bin/" + pkg.Name, "usr/share/link-" + pkg.Name} {
			if _, err := os.Stat(filepath.Join(root.Dir, name)); err != nil {
				t.Error(err)
			}
		}
	}
	cache := filepath.Dir(filepath.Dir(root.Dir))
	if left, err := os.ReadDir(filepath.Join(cache, temporary)); err != nil || len(left) > 0 {
		t.Errorf("temporary files: %v (%v)", left, err)
	}
}

func TestInstall(t *testing.T) {
	p := newPool(t)
	program, cache := p.program(t, "a", "b"), p.cache(t, filepath.Join(t.TempDir(), "new", "cache"))
	root, err := cache.install(t.Context(), program)
	if err != nil {
		t.Fatal(err)
	}
	checkInstalled(t, root)
	cache.sources = []source{} // an installed program needs none
	again, err := cache.install(t.Context(), program)
	if err != nil || again.Dir != root.Dir {
		t.Errorf("installed again in %s (%v), want %s", again.Dir, err, root.Dir)
	}
	program.Packages = program.Packages[:1]
	if other, err := cache.install(t.Context(), program); err != nil || other.Dir == root.Dir {
		t.Errorf("with other packages installed in %s (%v)", other.Dir, err)
	}
}

// TestInstallErrors says for bad packages and directories what the error contains.
func TestInstallErrors(t *testing.T) {
	p := newPool(t)
	twice := p.program(t, "a", "a")
	if _, err := p.cache(t, t.TempDir()).install(t.Context(), twice); err == nil || !strings.Contains(err.Error(), "file exists") {
		t.Errorf("the same files twice: %v", err)
	}
	if _, err := p.cache(t, filepath.Join(t.TempDir(), "a:b")).install(t.Context(), p.program(t, "a")); err == nil || !strings.Contains(err.Error(), "colon") {
		t.Errorf("a directory with a colon: %v", err)
	}
	if _, err := p.cache(t, t.TempDir()).Install(t.Context(), "emacs"); err == nil || !strings.Contains(err.Error(), "nginx") {
		t.Errorf("an unknown program: %v, want an error that names the known ones", err)
	}
}

// TestLeftovers removes what a process left that was killed while it unpacked.
func TestLeftovers(t *testing.T) {
	p := newPool(t)
	program, cache := p.program(t, "a"), p.cache(t, t.TempDir())
	half := filepath.Join(cache.Dir, temporary, program.ID(), "usr", "share")
	if err := os.MkdirAll(half, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(half, "a"), []byte("half"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(cache.Dir, temporary, program.Packages[0].file()), []byte("!<arch>"), 0o644); err != nil {
		t.Fatal(err)
	}
	root, err := cache.install(t.Context(), program)
	if err != nil {
		t.Fatal(err)
	}
	checkInstalled(t, root)
}

// childVariable is set to a cache's directory in the process that TestKill kills.
const childVariable = "PINFOLD_TEST_DEBIAN_CHILD"

// TestKill kills a process during a download, and then installs the program.
func TestKill(t *testing.T) {
	p := newPool(t)
	program := p.program(t, "a", "b")
	if dir := os.Getenv(childVariable); dir != "" {
		cache := Cache{Dir: dir, sources: []source{newMirror(os.Getenv(MirrorVariable))}}
		_, err := cache.install(t.Context(), program)
		t.Fatal("not killed:", err)
	}
	reached := make(chan struct{})
	p.answerWith(func(w http.ResponseWriter, r *http.Request) {
		data := p.files[r.URL.Path]
		if strings.Contains(r.URL.Path, "/a_") {
			_, _ = w.Write(data)
			return
		}
		_, _ = w.Write(data[:len(data)/2])
		w.(http.Flusher).Flush()
		close(reached)
		<-r.Context().Done()
	})
	cache := p.cache(t, t.TempDir())
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKill$")
	child.Env = append(os.Environ(), childVariable+"="+cache.Dir, MirrorVariable+"="+p.url)
	var out bytes.Buffer
	child.Stdout, child.Stderr = &out, &out
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	<-reached
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	var killed *exec.ExitError
	if err := child.Wait(); !errors.As(err, &killed) || killed.Exited() {
		t.Fatalf("the process ended with %v: %s", err, &out)
	}
	p.answerWith(nil)
	root, err := cache.install(t.Context(), program)
	if err != nil {
		t.Fatal(err)
	}
	checkInstalled(t, root)
	if n := p.count(program.Packages[0]); n != 1 {
		t.Errorf("%d requests of the package that was complete, want 1", n)
	}
}

// TestConcurrentInstalls installs a program several times at once. It is downloaded once.
func TestConcurrentInstalls(t *testing.T) {
	p := newPool(t)
	program, cache := p.program(t, "a", "b"), p.cache(t, t.TempDir())
	var waiting sync.WaitGroup
	waiting.Add(3)
	cache.Progress = func(line string) {
		if strings.HasPrefix(line, "downloading") { // only the process that holds the lock
			waiting.Wait()
		} else if strings.HasPrefix(line, "waiting") {
			waiting.Done()
		}
	}
	var group errgroup.Group
	for range 4 {
		group.Go(func() error {
			root, err := cache.install(t.Context(), program)
			if err == nil {
				_, err = os.Stat(filepath.Join(root.Dir, "usr/share/b"))
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, pkg := range program.Packages {
		if n := p.count(pkg); n != 1 {
			t.Errorf("%d requests of %s, want 1", n, pkg.Path)
		}
	}
}

// TestLockCancel ends the wait for another process.
func TestLockCancel(t *testing.T) {
	p := newPool(t)
	cache := p.cache(t, t.TempDir())
	s, err := cache.open()
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	lock, err := s.lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cache.Progress = func(string) { cancel() } // when it begins to wait
	if _, err := cache.install(ctx, p.program(t, "a")); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "another process") {
		t.Errorf("error %v", err)
	}
}
