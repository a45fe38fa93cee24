package programs

import (
	_ "embed" // the template and the script
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

var (
	//go:embed httpd.conf.tmpl
	apacheTemplate string
	//go:embed cpu.lua
	cpuScript string
)

// nobody is the user and group of the workers if Apache is started by root. Apache's workers cannot
// be root.
const nobody = 65534

// modules returns the names of the modules that [Program.Apache] loads. With mpm_event, Apache is
// one process with as many threads as the site has workers.
func modules() []string { return []string{"authz_core", "dir", "lua", "mpm_event"} }

func moduleFile(name string) string { return "mod_" + name + ".so" }

// Apache writes the configuration of a site and returns the arguments that run it in the
// foreground. SIGTERM ends Apache. It writes its errors to error.log in the site's directory.
// Beside the page, it serves [CPUPath].
//
// Use more workers than connections: otherwise Apache closes idle connections, which clients may
// count as errors.
//
// If this process is root, the workers are nobody. Apache then permits all users to enter the
// site's directory, and returns an error if they cannot enter one above it.
func (p Program) Apache(s Site) (args []string, err error) {
	loaded := map[string]string{}
	for _, name := range modules() {
		loaded[name+"_module"] = filepath.Join(p.modules, moduleFile(name))
	}
	text, err := p.configure("apache2", apacheTemplate, configuration{Site: s, Modules: loaded, Nobody: nobody})
	if err != nil {
		return nil, err
	}
	if err := s.write(map[string]string{"httpd.conf": text, "cpu.lua": cpuScript}); err != nil {
		return nil, fmt.Errorf("apache2: %w", err)
	}
	if os.Geteuid() == 0 {
		if err := openToAll(s.Dir); err != nil {
			return nil, fmt.Errorf("apache2: %w", err)
		}
	}
	return []string{"-f", s.path("httpd.conf"), "-D", "FOREGROUND"}, nil
}

// CPUPath returns the path of a URL of Apache that is answered after a number of iterations of a
// loop in Lua. An iteration takes on the order of 10 ns of CPU time: measure it on the machine in
// question.
func CPUPath(loops int) string { return fmt.Sprintf("/cpu?loops=%d", loops) }

// openToAll permits all users to enter a directory, and checks that they can enter those above it.
func openToAll(dir string) error {
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	for parent := filepath.Dir(dir); parent != "/"; parent = filepath.Dir(parent) {
		info, err := os.Stat(parent)
		if err != nil {
			return err
		}
		if info.Mode()&fs.FileMode(0o001) == 0 {
			return fmt.Errorf("user nobody cannot enter %s: choose a directory for the site that all users can enter, such as one in /tmp", parent)
		}
	}
	return nil
}
