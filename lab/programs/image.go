package programs

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"pinfold.dev/pinfold/internal/ociimage"
)

// The users and groups of every image.
const (
	passwd = "root:x:0:0:root:/root:/usr/sbin/nologin\nwww-data:x:33:33:www-data:/var/www:/usr/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
	groups = "root:x:0:\nwww-data:x:33:\nnogroup:x:65534:\n"
)

// ID returns the program's name with a digest of the files of its image.
func (p Program) ID() (string, error) {
	files, err := p.files()
	return p.id(files), err
}

func (p Program) id(files []ociimage.File) string {
	digest := sha256.New()
	for _, f := range files {
		fmt.Fprintln(digest, f.Name, len(f.Data))
		digest.Write(f.Data)
	}
	return p.Name + "-" + hex.EncodeToString(digest.Sum(nil)[:8])
}

// Image returns an OCI image that runs the program as root, and its [Program.ID]. It has the
// program, Apache's modules, and the libraries that these load, at the same paths as on this
// machine. It has no configuration that would serve a page: mount one. The whole image is in
// memory.
func (p Program) Image() (id string, image v1.Image, err error) {
	files, err := p.files()
	if err != nil {
		return "", nil, err
	}
	image, err = ociimage.Build(ociimage.Spec{Architecture: runtime.GOARCH, Dirs: []string{"run", "tmp"},
		Files: append(files, ociimage.File{Name: "etc/group", Mode: 0o644, Data: []byte(groups)},
			ociimage.File{Name: "etc/passwd", Mode: 0o644, Data: []byte(passwd)}),
		Config: v1.Config{Entrypoint: []string{p.Executable}, WorkingDir: "/"}})
	return p.id(files), image, err
}

// files returns the files of an image, in the order of their names.
func (p Program) files() (files []ociimage.File, err error) {
	names := []string{p.Executable}
	if p.modules != "" {
		for _, name := range modules() {
			names = append(names, filepath.Join(p.modules, moduleFile(name)))
		}
	}
	for _, name := range slices.Clone(names) {
		libraries, err := librariesOf(name)
		if err != nil {
			return nil, err
		}
		names = append(names, libraries...)
	}
	if p.Name == "apache2" {
		// A thread that ends itself opens this library (pthread_exit).
		if library := beside(names, "libc.so.6", "libgcc_s.so.1"); library != "" {
			names = append(names, library)
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("image of %s: %w", p.Name, err)
		}
		files = append(files, ociimage.File{Name: strings.TrimPrefix(name, "/"), Mode: 0o755, Data: data})
	}
	return files, nil
}

// beside returns the path of a library in the directory of another one, or "".
func beside(names []string, other, library string) string {
	for _, name := range names {
		path := filepath.Join(filepath.Dir(name), library)
		if _, err := os.Stat(path); filepath.Base(name) == other && err == nil {
			return path
		}
	}
	return ""
}

// librariesOf returns the shared libraries that the dynamic loader loads with a file, and the
// loader: ldd(1) prints one per line, as "NAME => PATH (ADDRESS)" or "PATH (ADDRESS)".
func librariesOf(file string) (paths []string, err error) {
	ldd := exec.Command("ldd", file)
	ldd.Env = append(os.Environ(), "LC_ALL=C") // for its message about static programs
	out, err := ldd.CombinedOutput()
	if err != nil {
		if bytes.Contains(out, []byte("not a dynamic executable")) || bytes.Contains(out, []byte("statically linked")) {
			return nil, nil
		}
		return nil, fmt.Errorf("libraries of %s: %w: %s", file, err, bytes.TrimSpace(out))
	}
	lines := bufio.NewScanner(bytes.NewReader(out))
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if strings.HasSuffix(line, "=> not found") {
			return nil, fmt.Errorf("libraries of %s: %s", file, line)
		}
		for _, field := range strings.Fields(line) {
			if strings.HasPrefix(field, "/") {
				paths = append(paths, field)
				break
			}
		}
	}
	return paths, lines.Err()
}
