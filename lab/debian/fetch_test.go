package debian

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pinfold.dev/pinfold/linux/owned"
)

// TestFetch fetches packages, once.
func TestFetch(t *testing.T) {
	p := newPool(t)
	program, cache := p.program(t, "a", "b"), p.cache(t, t.TempDir())
	for range 2 {
		if err := cache.Fetch(t.Context(), program.Packages...); err != nil {
			t.Fatal(err)
		}
	}
	for _, pkg := range program.Packages {
		if n := p.count(pkg); n != 1 {
			t.Errorf("%d requests of %s, want 1", n, pkg.Path)
		}
		opened, err := cache.Open(pkg)
		if err != nil {
			t.Fatal(err)
		}
		_ = opened.Close() // read only
		if _, err := cache.Open(wrong(pkg)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("opened with another digest: %v", err)
		}
	}
}

// TestDamagedFile replaces a file of the cache that has changed.
func TestDamagedFile(t *testing.T) {
	p := newPool(t)
	program, cache := p.program(t, "a"), p.cache(t, t.TempDir())
	name := filepath.Join(cache.Dir, packagesDir, program.Packages[0].file())
	for _, damage := range []func() error{
		func() error { return os.Truncate(name, 100) },
		func() error { return os.WriteFile(name, p.files["/"+program.Packages[0].Path][1:], 0o600) },
		func() error { return os.WriteFile(name, make([]byte, program.Packages[0].Size), 0o600) },
	} {
		if err := cache.Fetch(t.Context(), program.Packages...); err != nil {
			t.Fatal(err)
		}
		if err := damage(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := cache.install(t.Context(), program); err != nil {
		t.Error(err)
	}
}

// TestBadMirrors says for mirrors that do not work what the error contains. No file remains.
func TestBadMirrors(t *testing.T) {
	p := newPool(t)
	program := p.program(t, "a", "b")
	whole := p.files["/"+program.Packages[0].Path]
	for name, test := range map[string]struct {
		says   string
		answer http.HandlerFunc
	}{
		"not found":  {"does not have a_1-1_all.deb and 1 more", http.NotFound},
		"error":      {"status 503", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusServiceUnavailable) }},
		"digest":     {"SHA-256", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, len(whole))) }},
		"short":      {"bytes, want", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(whole[1:]) }},
		"truncated":  {"unexpected EOF", truncated(whole)},
		"endless":    {"more than", endless},
		"login page": {"bytes, want", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }},
	} {
		t.Run(name, func(t *testing.T) {
			p.answerWith(test.answer)
			cache := p.cache(t, t.TempDir())
			_, err := cache.install(t.Context(), program)
			if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), p.url) {
				t.Errorf("error %v, want %q and %s", err, test.says, p.url)
			}
			for _, dir := range []string{packagesDir, rootsDir, temporary} {
				if found, err := os.ReadDir(filepath.Join(cache.Dir, dir)); err != nil || len(found) > 0 {
					t.Errorf("%s: %v (%v)", dir, found, err)
				}
			}
		})
	}
}

// truncated announces all data and closes the connection after half of it.
func truncated(data []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100000")
		_, _ = w.Write(data[:len(data)/2])
	}
}

// endless sends until the client closes the connection.
func endless(w http.ResponseWriter, r *http.Request) {
	for r.Context().Err() == nil {
		_, _ = w.Write(make([]byte, 4096))
	}
}

// TestStalledMirror continues with the next mirror when one stops sending, before or after the
// header.
func TestStalledMirror(t *testing.T) {
	good := newPool(t)
	program := good.program(t, "a")
	for name, send := range map[string][]byte{"no header": nil, "half a file": []byte("!<arch>")} {
		t.Run(name, func(t *testing.T) {
			bad := newPool(t)
			bad.answerWith(func(w http.ResponseWriter, r *http.Request) {
				if send != nil {
					_, _ = w.Write(send)
					w.(http.Flusher).Flush()
				}
				<-r.Context().Done()
			})
			stalling := mirror{bad.url, 50 * time.Millisecond}
			cache := Cache{Dir: t.TempDir(), sources: []source{stalling}}
			if err := cache.Fetch(t.Context(), program.Packages...); err == nil || !strings.Contains(err.Error(), errStalled.Error()) {
				t.Errorf("error %v, want %v", err, errStalled)
			}
			cache.sources = append(cache.sources, good.cache(t, "").sources...)
			if err := cache.Fetch(t.Context(), program.Packages...); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestPartialMirrors takes each package from the mirror that has it.
func TestPartialMirrors(t *testing.T) {
	one, two := newPool(t), newPool(t)
	a, b := one.program(t, "a").Packages[0], two.program(t, "b").Packages[0]
	cache := Cache{Dir: t.TempDir(), sources: append(one.cache(t, "").sources, two.cache(t, "").sources...)}
	if err := cache.Fetch(t.Context(), a, b); err != nil {
		t.Error(err)
	}
	if two.count(a) != 0 {
		t.Error("the second mirror is asked for a package of the first")
	}
}

// TestCancel ends a download and returns the cause.
func TestCancel(t *testing.T) {
	p := newPool(t)
	program := p.program(t, "a")
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("the user is impatient")
	p.answerWith(func(_ http.ResponseWriter, r *http.Request) {
		cancel(cause)
		<-r.Context().Done()
	})
	if _, err := p.cache(t, t.TempDir()).install(ctx, program); !errors.Is(err, cause) || errors.Is(err, ErrUnavailable) {
		t.Errorf("error %v, want %v", err, cause)
	}
}

// TestMirrorVariable uses the mirror in the environment first.
func TestMirrorVariable(t *testing.T) {
	p := newPool(t)
	program := p.program(t, "a")
	t.Setenv(MirrorVariable, p.url+"/")
	cache := Cache{Dir: t.TempDir()}
	if err := cache.Fetch(t.Context(), program.Packages...); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"ftp://example.com/debian", "/var/cache", "http://", ":"} {
		t.Setenv(MirrorVariable, bad)
		if err := cache.Fetch(t.Context(), program.Packages...); err == nil || !strings.Contains(err.Error(), MirrorVariable) {
			t.Errorf("%s: %v, want an error that names %s", bad, err, MirrorVariable)
		}
	}
}

// TestSources checks the order of the sources, with and without apt-get.
func TestSources(t *testing.T) {
	t.Setenv(MirrorVariable, "")
	t.Setenv("PATH", t.TempDir())
	checkSources(t, "")
	fakeApt(t, "")
	checkSources(t, "apt-get")
	t.Setenv(MirrorVariable, "https://example.com/debian")
	checkSources(t, "https://example.com/debian apt-get")
}

func checkSources(t *testing.T, want string) {
	t.Helper()
	sources, err := defaultSources(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range sources {
		names = append(names, s.String())
	}
	if got := strings.Join(names, " "); got != want {
		t.Errorf("sources %s, want %s", got, want)
	}
}

// TestForeignCache rejects a cache that another user could change.
func TestForeignCache(t *testing.T) {
	p := newPool(t)
	program, cache := p.program(t, "a"), p.cache(t, t.TempDir())
	if err := os.Chmod(cache.Dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := cache.install(t.Context(), program); !errors.Is(err, owned.ErrForeign) {
		t.Errorf("error %v, want %v", err, owned.ErrForeign)
	}
}

// TestUnreachableMirror names the mirror and what to do.
func TestUnreachableMirror(t *testing.T) {
	program := newPool(t).program(t, "a")
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	cache := Cache{Dir: t.TempDir(), sources: []source{mirror{server.URL, time.Minute}}}
	err := cache.Fetch(t.Context(), program.Packages...)
	if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), server.URL) || !strings.Contains(err.Error(), "set "+MirrorVariable) {
		t.Errorf("error %v", err)
	}
}
