package registry

import (
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"pinfold.dev/pinfold/internal/ociimage"
)

// TestLayout serves an index and an image of an OCI image layout under their names.
func TestLayout(t *testing.T) {
	dir := t.TempDir()
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	index, err1 := random.Index(100, 1, 2)
	image, err2 := random.Image(100, 1)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	if err := path.AppendIndex(index, named("example.com/team/both:v1")); err != nil {
		t.Fatal(err)
	}
	if err := path.AppendImage(image, named("example.com/team/one:v2")); err != nil {
		t.Fatal(err)
	}
	handler, err := New(nil, "", []string{dir}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	defer server.Close()
	for repository, want := range map[string]interface{ Digest() (v1.Hash, error) }{"team/both:v1": index, "team/one:v2": image} {
		tag, err := name.NewTag(strings.TrimPrefix(server.URL, "http://") + "/" + repository)
		if err != nil {
			t.Fatal(err)
		}
		got, err := remote.Get(tag)
		if err != nil {
			t.Fatal(err)
		}
		if digest, err := want.Digest(); err != nil || got.Digest != digest {
			t.Errorf("%s has digest %s, want %s (%v)", repository, got.Digest, digest, err)
		}
	}
}

func named(image string) layout.Option {
	return layout.WithAnnotations(map[string]string{ociimage.RefName: image})
}

// TestBadLayouts says for directories that are no usable layouts what the error contains.
func TestBadLayouts(t *testing.T) {
	image, err := random.Image(100, 1)
	if err != nil {
		t.Fatal(err)
	}
	nothing, nameless := t.TempDir(), t.TempDir()
	if _, err := layout.Write(nothing, empty.Index); err != nil {
		t.Fatal(err)
	}
	path, err := layout.Write(nameless, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	if err := path.AppendImage(image); err != nil {
		t.Fatal(err)
	}
	damaged := t.TempDir()
	if path, err = layout.Write(damaged, empty.Index); err != nil {
		t.Fatal(err)
	}
	if err := path.AppendImage(image, named("example.com/one:v1")); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(damaged, "blobs")); err != nil {
		t.Fatal(err)
	}
	for dir, says := range map[string]string{
		t.TempDir(): "no such file",
		nothing:     "it has no images",
		nameless:    `image ""`,
		damaged:     "example.com/one:v1",
	} {
		_, err := New(nil, "", []string{dir}, io.Discard)
		if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), dir) {
			t.Errorf("error %v, want %q and the directory", err, says)
		}
	}
}
