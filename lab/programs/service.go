package programs

import (
	"embed"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
)

// sources are the programs that others run, in their own languages.
//
//go:embed service.py Service.java build
var sources embed.FS

// write writes files of sources into a directory, which is created if missing.
func write(dir string, names ...string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, name := range names {
		text, err := fs.ReadFile(sources, name)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, filepath.Base(name)), text, 0o644)
		}
		if err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return nil
}

// Python writes a web service into a directory and returns the arguments with which Python runs it.
// The service does an amount of work for each request; see [OrdersPath].
func (p Program) Python(dir, address string) (args []string, err error) {
	return serviceArgs(address, []string{filepath.Join(dir, "service.py")}, write(dir, "service.py"))
}

// Java compiles a web service into a directory and returns the arguments with which Java runs it.
// The service does an amount of work for each request; see [OrdersPath].
func (p Program) Java(compiler Program, dir, address string) (args []string, err error) {
	if err := write(dir, "Service.java"); err != nil {
		return nil, err
	}
	compile := exec.Command(compiler.Executable, "-d", dir, filepath.Join(dir, "Service.java"))
	if output, err := compile.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("compile Service.java: %w: %s", err, output)
	}
	return serviceArgs(address, []string{"-Xmx128m", "-Dsun.net.httpserver.nodelay=true", "-cp", dir, "Service"}, nil)
}

func serviceArgs(address string, args []string, err error) ([]string, error) {
	host, port, errAddress := net.SplitHostPort(address)
	if err == nil {
		err = errAddress
	}
	return append(args, host, port), err
}

// OrdersPath returns the path of a URL of a service in Python or Java that is answered after a
// number of units of work, or of a build with that many parts.
func OrdersPath(n int) string { return fmt.Sprintf("/?n=%d", n) }

// Project writes a project for make into a directory.
func Project(dir string) error { return write(dir, "build/Makefile", "build/part.c") }
