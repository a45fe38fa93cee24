package debian

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// pool is a mirror with small packages. Every package contains usr/share/NAME with its name.
type pool struct {
	url string

	mu       sync.Mutex
	files    map[string][]byte // by URL path
	requests map[string]int    // likewise
	answer   http.HandlerFunc  // answers requests instead, if not nil
}

func newPool(t *testing.T) *pool {
	p := &pool{files: map[string][]byte{}, requests: map[string]int{}}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	p.url = server.URL
	return p
}

// ServeHTTP sends a file and counts the request.
func (p *pool) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.requests[r.URL.Path]++
	data, ok := p.files[r.URL.Path]
	answer := p.answer
	p.mu.Unlock()
	switch {
	case answer != nil:
		answer(w, r)
	case !ok:
		http.NotFound(w, r)
	default:
		_, _ = w.Write(data) // the client checks what it gets
	}
}

// count returns the number of requests of a package.
func (p *pool) count(pkg Package) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests["/"+pkg.Path]
}

// answerWith makes the mirror answer with a function, or as usual if it is nil.
func (p *pool) answerWith(answer http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = answer
}

// program adds packages to the mirror and returns a program that consists of them.
func (p *pool) program(t *testing.T, names ...string) Program {
	program := Program{Name: "test", Executable: "usr/bin/test", Libraries: []string{"usr/lib"}}
	for _, name := range names {
		deb := archive(t, file("usr/share/"+name, name), file("usr/bin/"+name, "x"), symlink("usr/share/link-"+name, "/usr/bin/"+name))
		digest := sha256.Sum256(deb)
		pkg := Package{name, "1:1-1", "all", hex.EncodeToString(digest[:]), int64(len(deb)), "pool/main/" + name + "_1-1_all.deb"}
		p.mu.Lock()
		p.files["/"+pkg.Path] = deb
		p.mu.Unlock()
		program.Packages = append(program.Packages, pkg)
	}
	return program
}

// cache returns a cache in a directory, with the mirror as its only source.
func (p *pool) cache(t *testing.T, dir string) Cache {
	progress := func(line string) { t.Log(line) }
	return Cache{Dir: dir, Progress: progress, sources: []source{mirror{p.url, time.Minute}}}
}

// wrong returns the package with another digest.
func wrong(p Package) Package {
	p.SHA256 = fmt.Sprintf("%064d", 0)
	return p
}
