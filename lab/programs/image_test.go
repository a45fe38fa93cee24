package programs

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"pinfold.dev/pinfold/test/must"
)

// TestImage checks that an image has the program, its modules and all of their libraries, and that
// its name depends on the files only.
func TestImage(t *testing.T) {
	p := find(t, "apache2")
	id := must.Get(p.ID())(t)
	if again, err := p.ID(); err != nil || again != id || !strings.HasPrefix(id, "apache2-") {
		t.Errorf("ids %s and %s (%v)", id, again, err)
	}
	named, image, err := p.Image()
	if err != nil {
		t.Fatal(err)
	}
	if named != id {
		t.Errorf("the image is called %s, want %s", named, id)
	}
	config := must.Get(image.ConfigFile())(t)
	if got := strings.Join(config.Config.Entrypoint, " "); got != p.Executable {
		t.Errorf("command %q, want %q", got, p.Executable)
	}
	content := mutate.Extract(image)
	defer content.Close()
	var names []string
	for archive := tar.NewReader(content); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, header.Name)
	}
	all := strings.Join(names, "\n") + "\n"
	for _, want := range []string{p.Executable[1:], "etc/passwd", "/mod_mpm_event.so", "/libc.so.6", "ld-linux", "libgcc_s.so.1"} {
		if !strings.Contains(all, want) {
			t.Errorf("the image has no %s:\n%s", want, all)
		}
	}
}

// TestImagesRun runs programs with nothing but what their images have. Apache loads its modules, as
// it does to check a configuration.
func TestImagesRun(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root for chroot(2)")
	}
	for _, name := range []string{"nginx", "apache2", "ffmpeg"} {
		t.Run(name, func(t *testing.T) {
			p := find(t, name)
			_, image, err := p.Image()
			if err != nil {
				t.Fatal(err)
			}
			root := t.TempDir()
			content := mutate.Extract(image)
			defer content.Close()
			must.Do(t, unpack(root, content))
			args := []string{known[name].version}
			if name == "apache2" {
				site := Site{Dir: siteDir(t), Address: freeAddress(t), Workers: 1}
				if args, err = p.Apache(site); err != nil {
					t.Fatal(err)
				}
				must.Do(t, os.CopyFS(filepath.Join(root, site.Dir), os.DirFS(site.Dir)))
				args = append(args, "-t")
			}
			cmd, messages := command(t, p.Command(args...))
			cmd.SysProcAttr.Chroot, cmd.Dir = root, "/"
			if err := cmd.Run(); err != nil {
				t.Errorf("%q: %v: %s", args, err, messages)
			}
		})
	}
}

// unpack writes the files of an archive below a directory.
func unpack(dir string, content io.Reader) error {
	for archive := tar.NewReader(content); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := filepath.Join(dir, header.Name)
		if header.Typeflag == tar.TypeDir {
			err = os.MkdirAll(name, 0o755)
		} else {
			var data []byte
			if data, err = io.ReadAll(archive); err == nil {
				err = os.WriteFile(name, data, header.FileInfo().Mode())
			}
		}
		if err != nil {
			return err
		}
	}
}
