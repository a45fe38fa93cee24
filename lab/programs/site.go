package programs

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

// Site describes a web server that serves one page on this machine. Each server needs its own
// directory. A site never writes an access log.
type Site struct {
	Dir     string // absolute; for configuration, page, logs and temporary files; created if missing
	Address string // loopback address and port, such as 127.0.0.1:8080
	Bytes   int    // size of the page "/"
	Workers int    // number of worker processes or threads, at least 1
	// Compress makes nginx compress the page anew for each request that accepts gzip.
	Compress bool
}

// Names in a site's directory.
const (
	pageDir  = "www"
	errorLog = "error.log"
)

// configuration is the data of the templates of configuration files.
type configuration struct {
	Site    Site
	AsRoot  bool              // the server is started by root
	Nobody  int               // user and group of workers that are started by root
	Modules map[string]string // files by name
}

// configure returns the configuration of a program from a template.
func (p Program) configure(program, text string, c configuration) (string, error) {
	if p.Name != program {
		return "", fmt.Errorf("configure %s: the program is %s", program, p.Name)
	}
	parsed, err := template.New(program).Parse(text)
	if err != nil {
		return "", err
	}
	c.AsRoot = os.Geteuid() == 0
	var out strings.Builder
	err = parsed.Execute(&out, c)
	return out.String(), err
}

// path returns the path of a file of the site.
func (s Site) path(elem ...string) string { return filepath.Join(append([]string{s.Dir}, elem...)...) }

// write writes the page, and the given files by name. All users can read them.
func (s Site) write(files map[string]string) error {
	if err := s.check(); err != nil {
		return err
	}
	if err := os.MkdirAll(s.path(pageDir), 0o755); err != nil {
		return fmt.Errorf("create a site: %w", err)
	}
	page := strings.Repeat("Pinfold\n", s.Bytes/8+1)[:s.Bytes]
	err := errors.Join(os.Chmod(s.path(pageDir), 0o755), s.writeFile(filepath.Join(pageDir, "index.html"), page))
	for name, text := range files {
		err = errors.Join(err, s.writeFile(name, text))
	}
	return err
}

// writeFile writes a file that all users can read, despite the umask.
func (s Site) writeFile(name, text string) error {
	if err := os.WriteFile(s.path(name), []byte(text), 0o644); err != nil {
		return fmt.Errorf("write a site: %w", err)
	}
	return os.Chmod(s.path(name), 0o644)
}

func (s Site) check() error {
	address, err := netip.ParseAddrPort(s.Address)
	switch {
	case err != nil:
		return fmt.Errorf("address of a site: %w", err)
	case !address.Addr().IsLoopback() || address.Addr().Zone() != "" || address.Port() == 0:
		return fmt.Errorf("address of a site: %s: want a loopback address and a port", s.Address)
	case s.Workers < 1:
		return fmt.Errorf("a site with %d workers: want at least 1", s.Workers)
	case s.Bytes < 0:
		return fmt.Errorf("a page of %d bytes: want 0 or more", s.Bytes)
	case !filepath.IsAbs(s.Dir):
		return fmt.Errorf("directory %q of a site: want an absolute path", s.Dir)
	}
	return checkQuotable(s.Dir)
}

// checkQuotable rejects a path that nginx or Apache would not read literally in double quotes.
func checkQuotable(path string) error {
	if strings.ContainsAny(path, "\"\\$%\n\r") {
		return fmt.Errorf("path %q: choose one without quotes, backslashes, dollar and percent signs and line breaks", path)
	}
	return nil
}
