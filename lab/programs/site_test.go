package programs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pinfold.dev/pinfold/test/must"
)

// TestSiteErrors says for sites that cannot be served what the error contains. They are not
// created.
func TestSiteErrors(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "site")
	good := Site{Dir: dir, Address: "127.0.0.1:8080", Bytes: 100, Workers: 4}
	nginx, apache := Program{Name: "nginx"}, Program{Name: "apache2"}
	for says, change := range map[string]func(*Site){
		"address":          func(s *Site) { s.Address = "localhost:80" },
		"loopback":         func(s *Site) { s.Address = "0.0.0.0:80" },
		"want a loopback":  func(s *Site) { s.Address = "[::1%; daemon on]:80" },
		"and a port":       func(s *Site) { s.Address = "[::1]:0" },
		"at least 1":       func(s *Site) { s.Workers = 0 },
		"page of -1 bytes": func(s *Site) { s.Bytes = -1 },
		"absolute":         func(s *Site) { s.Dir = "site" },
		"without quotes":   func(s *Site) { s.Dir += `"; daemon on;` },
	} {
		site := good
		change(&site)
		if _, err := nginx.Nginx(site); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("nginx: error %v, want %q", err, says)
		}
		if _, err := apache.Apache(site); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("apache2: error %v, want %q", err, says)
		}
	}
	if _, err := apache.Nginx(good); err == nil || !strings.Contains(err.Error(), "the program is apache2") {
		t.Errorf("apache2 as nginx: %v", err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the directory of a bad site exists (%v)", err)
	}
}

// TestOpenToAll rejects a directory that only root can enter.
func TestOpenToAll(t *testing.T) {
	private := filepath.Join(t.TempDir(), "private")
	site := filepath.Join(private, "site")
	must.Do(t, os.MkdirAll(site, 0o700))
	must.Do(t, os.Chmod(private, 0o700))
	if err := openToAll(site); err == nil || !strings.Contains(err.Error(), "cannot enter "+private) {
		t.Errorf("error %v, want one that names %s", err, private)
	}
}
