package ociimage

import (
	"archive/tar"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"pinfold.dev/pinfold/test/must"
)

func spec() Spec {
	return Spec{
		Architecture: "arm64",
		Dirs:         []string{"var/log/web", "tmp"},
		Files:        []File{{"bin/web", 0o755, []byte("program")}, {"etc/passwd", 0o644, []byte("root")}},
		Config:       v1.Config{Entrypoint: []string{"/bin/web"}, User: "1:1"},
	}
}

// TestBuild reads images back, with and without compression.
func TestBuild(t *testing.T) {
	for _, compress := range []bool{false, true} {
		s := spec()
		s.Compress = compress
		image := must.Get(Build(s))(t)
		manifest := must.Get(image.Manifest())(t)
		layerType := types.OCIUncompressedLayer
		if compress {
			layerType = types.OCILayer
		}
		if manifest.MediaType != types.OCIManifestSchema1 || manifest.Config.MediaType != types.OCIConfigJSON || manifest.Layers[0].MediaType != layerType {
			t.Errorf("media types: %+v", manifest)
		}
		config, err := image.ConfigFile()
		if err != nil || config.OS != "linux" || config.Architecture != "arm64" || config.Config.User != "1:1" || !config.Created.IsZero() {
			t.Errorf("configuration %+v (%v)", config, err)
		}
		layers := must.Get(image.Layers())(t)
		content := must.Get(layers[0].Uncompressed())(t)
		want := []string{"bin/ 755 ", "etc/ 755 ", "tmp/ 1777 ", "var/ 755 ", "var/log/ 755 ", "var/log/web/ 755 ", "bin/web 755 program", "etc/passwd 644 root"}
		if diff := cmp.Diff(want, list(t, content)); diff != "" {
			t.Errorf("files (-want +got):\n%s", diff)
		}
	}
}

func list(t *testing.T, content io.ReadCloser) (all []string) {
	t.Helper()
	defer content.Close()
	archive := tar.NewReader(content)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Uid != 0 || header.Gid != 0 || header.ModTime.Unix() > 0 {
			t.Errorf("%s belongs to %d:%d and is of %v", header.Name, header.Uid, header.Gid, header.ModTime)
		}
		data := must.Get(io.ReadAll(archive))(t)
		all = append(all, header.Name+" "+strconv.FormatInt(header.Mode, 8)+" "+string(data))
	}
}

// TestReproducible checks that the order of files has no effect, and everything else has.
func TestReproducible(t *testing.T) {
	digestOf := func(change func(*Spec)) string {
		s := spec()
		change(&s)
		image := must.Get(Build(s))(t)
		digest := must.Get(image.Digest())(t)
		return digest.String()
	}
	want := digestOf(func(*Spec) {})
	if got := digestOf(func(s *Spec) { slices.Reverse(s.Files); slices.Reverse(s.Dirs) }); got != want {
		t.Errorf("in another order the digest is %s, not %s", got, want)
	}
	for name, change := range map[string]func(*Spec){
		"architecture": func(s *Spec) { s.Architecture = "amd64" }, "content": func(s *Spec) { s.Files[0].Data = []byte("x") },
		"mode": func(s *Spec) { s.Files[0].Mode = 0o700 }, "name": func(s *Spec) { s.Files[0].Name = "bin/w" },
		"user": func(s *Spec) { s.Config.User = "2:2" }, "directory": func(s *Spec) { s.Dirs = nil },
	} {
		if got := digestOf(change); got == want {
			t.Errorf("with another %s the digest is the same", name)
		}
	}
	s := spec()
	s.Files = append(s.Files, s.Files[0])
	if _, err := Build(s); err == nil || !strings.Contains(err.Error(), "two files bin/web") {
		t.Errorf("the same file twice: %v", err)
	}
}
