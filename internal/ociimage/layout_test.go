package ociimage

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/layout"

	"pinfold.dev/pinfold/test/must"
)

// TestWriteLayout writes a layout twice, and keeps everything that is not one.
func TestWriteLayout(t *testing.T) {
	image := must.Get(Build(spec()))(t)
	all := []Named{{"example.com/web:1", image}}
	dir := filepath.Join(t.TempDir(), "new", "images")
	for range 2 {
		must.Do(t, WriteLayout(dir, all))
		index := must.Get(layout.ImageIndexFromPath(dir))(t)
		manifest, err := index.IndexManifest()
		if err != nil || len(manifest.Manifests) != 1 || manifest.Manifests[0].Annotations[RefName] != "example.com/web:1" {
			t.Errorf("%+v, error %v", manifest, err)
		}
	}
	other := filepath.Join(dir, "notes.txt")
	site := filepath.Join(t.TempDir(), "index.json")
	for _, file := range []string{other, site} {
		must.Do(t, os.WriteFile(file, []byte("text"), 0o600))
	}
	for _, dir := range []string{dir, filepath.Dir(site), site} {
		if err := WriteLayout(dir, all); err == nil {
			t.Errorf("%s was replaced", dir)
		}
	}
	for _, file := range []string{other, site} {
		if text, err := os.ReadFile(file); err != nil || string(text) != "text" {
			t.Errorf("%s: %q, error %v", file, text, err)
		}
	}
}
