package debian

import (
	"archive/tar"
	"errors"
	"io"
	"strings"
	"testing"
)

// TestImage checks that the image depends on the packages only, and has their files and links.
func TestImage(t *testing.T) {
	p := newPool(t)
	program := p.program(t, "a", "b")
	digests := map[string]bool{}
	for range 2 {
		root, err := p.cache(t, t.TempDir()).install(t.Context(), program)
		if err != nil {
			t.Fatal(err)
		}
		image, err := root.Image("-v")
		if err != nil {
			t.Fatal(err)
		}
		digest, err := image.Digest()
		if err != nil {
			t.Fatal(err)
		}
		digests[digest.String()] = true
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(append(config.Config.Entrypoint, config.Config.Cmd...), " "); got != "/usr/bin/test -v" {
			t.Errorf("command %q", got)
		}
		layers, err := image.Layers()
		if err != nil {
			t.Fatal(err)
		}
		content, err := layers[0].Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		checkLayer(t, content)
	}
	if len(digests) != 1 {
		t.Errorf("the same packages give images %v", digests)
	}
}

func checkLayer(t *testing.T, content io.ReadCloser) {
	t.Helper()
	defer content.Close()
	found := map[string]*tar.Header{}
	for archive := tar.NewReader(content); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		found[header.Name] = header
	}
	for name, target := range map[string]string{
		"usr/bin/a": "", "usr/share/b": "", "etc/passwd": "", "tmp/": "",
		"bin": "usr/bin", "lib64": "usr/lib64", "usr/share/link-a": "../bin/a",
	} {
		if header := found[name]; header == nil || header.Linkname != target {
			t.Errorf("%s: %+v, want a link to %q", name, header, target)
		}
	}
}
