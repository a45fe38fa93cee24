package programs

import (
	"archive/tar"
	"errors"
	"io"
	"strings"
	"testing"
)

// TestImage checks that an image has the program, its modules and all of their libraries, and that
// its name depends on the files only.
func TestImage(t *testing.T) {
	p := find(t, "apache2")
	id, err := p.ID()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := p.ID(); err != nil || again != id || !strings.HasPrefix(id, "apache2-") {
		t.Errorf("ids %s and %s (%v)", id, again, err)
	}
	image, err := p.Image()
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(config.Config.Entrypoint, " "); got != p.Executable {
		t.Errorf("command %q, want %q", got, p.Executable)
	}
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
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
