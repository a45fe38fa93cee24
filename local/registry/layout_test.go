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
	"pinfold.dev/pinfold/test/must"
)

// TestLayout serves an index and an image of an OCI image layout under their names.
func TestLayout(t *testing.T) {
	dir := t.TempDir()
	path := must.Get(layout.Write(dir, empty.Index))(t)
	index, err1 := random.Index(100, 1, 2)
	image, err2 := random.Image(100, 1)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	must.Do(t, path.AppendIndex(index, named("example.com/team/both:v1")))
	must.Do(t, path.AppendImage(image, named("example.com/team/one:v2")))
	handler := must.Get(New(nil, "", []string{dir}, io.Discard))(t)
	server := httptest.NewServer(handler)
	defer server.Close()
	for repository, want := range map[string]interface{ Digest() (v1.Hash, error) }{"team/both:v1": index, "team/one:v2": image} {
		tag := must.Get(name.NewTag(strings.TrimPrefix(server.URL, "http://") + "/" + repository))(t)
		got := must.Get(remote.Get(tag))(t)
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
	image := must.Get(random.Image(100, 1))(t)
	nothing, nameless := t.TempDir(), t.TempDir()
	must.Get(layout.Write(nothing, empty.Index))(t)
	path := must.Get(layout.Write(nameless, empty.Index))(t)
	must.Do(t, path.AppendImage(image))
	damaged := t.TempDir()
	path = must.Get(layout.Write(damaged, empty.Index))(t)
	must.Do(t, path.AppendImage(image, named("example.com/one:v1")))
	must.Do(t, os.RemoveAll(filepath.Join(damaged, "blobs")))
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
