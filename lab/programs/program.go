package programs

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Program is a program that is installed on this machine.
type Program struct {
	Name       string // one of those that Find knows
	Executable string // absolute path
	Version    string // as the program prints it
	modules    string // directory of Apache's modules
}

// known are the names of the executables, and the options that print the version, by name.
var known = map[string]struct {
	executables []string
	version     string
}{
	"nginx":   {[]string{"nginx"}, "-v"},
	"apache2": {[]string{"apache2", "httpd"}, "-v"}, // Debian's name, and that of others
	"wrk":     {[]string{"wrk"}, "-v"},
	"ffmpeg":  {[]string{"ffmpeg"}, "-version"},
	"python3": {[]string{"python3"}, "--version"},
	"java":    {[]string{"java"}, "-version"},
	"javac":   {[]string{"javac"}, "-version"},
	"make":    {[]string{"make"}, "--version"},
	"cc":      {[]string{"cc"}, "--version"},
}

// moduleDirs are where distributions have Apache's modules: Debian, Fedora, Alpine, openSUSE.
var moduleDirs = []string{"/usr/lib/apache2/modules", "/usr/lib64/httpd/modules", "/usr/lib/apache2", "/usr/lib64/apache2"}

// Find finds a program: one of those that are known. The error is an [exec.ErrNotFound] if the
// program is not installed, or without the modules that experiments need.
func Find(name string) (Program, error) {
	p := Program{Name: name}
	for _, executable := range known[name].executables {
		for _, place := range []string{executable, filepath.Join("/usr/sbin", executable)} { // users often lack the latter in PATH
			if found, err := exec.LookPath(place); err == nil {
				p.Executable = cmp.Or(p.Executable, found)
			}
		}
	}
	if p.Executable == "" {
		return p, fmt.Errorf("%s is not installed: %w", name, exec.ErrNotFound)
	}
	var err error
	if p.Executable, err = filepath.Abs(p.Executable); err != nil {
		return p, err
	}
	if name == "apache2" {
		if p.modules = modulesIn(moduleDirs); p.modules == "" {
			return p, fmt.Errorf("apache2 is installed without %v in one of %v: %w", modules(), moduleDirs, exec.ErrNotFound)
		}
	}
	if p.Version, err = p.version(); err != nil {
		return p, fmt.Errorf("ask %s for its version: %w", p.Executable, err)
	}
	return p, nil
}

// version returns the first line that the program prints about its version.
func (p Program) version() (string, error) {
	out, err := exec.Command(p.Executable, known[p.Name].version).CombinedOutput()
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	line = strings.TrimSpace(line)
	var exit *exec.ExitError
	switch {
	case line == "":
		return "", errors.New("it prints nothing")
	case err == nil, p.Name == "wrk" && errors.As(err, &exit) && exit.ExitCode() == 1: // it prints its version and fails
		return line, nil
	}
	return "", fmt.Errorf("%w: %s", err, line)
}

// modulesIn returns the first directory that has all of Apache's modules, or "".
func modulesIn(dirs []string) string {
	for _, dir := range dirs {
		ok := true
		for _, name := range modules() {
			_, err := os.Stat(filepath.Join(dir, moduleFile(name)))
			ok = ok && err == nil
		}
		if ok {
			return dir
		}
	}
	return ""
}

// Command returns the command line that runs the program.
func (p Program) Command(args ...string) []string { return append([]string{p.Executable}, args...) }
