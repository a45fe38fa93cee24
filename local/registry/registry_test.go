package registry

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"pinfold.dev/pinfold/local/images"
	"pinfold.dev/pinfold/test/must"
)

// programs returns a directory with all programs.
func programs(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, program := range images.Programs() {
		path := filepath.Join(dir, images.Path(program))
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.Do(t, os.WriteFile(path, []byte("program "+program), 0o755))
	}
	return dir
}

// get requests a path of the registry and checks the digest of the answer.
func get(t *testing.T, server *httptest.Server, path string) []byte {
	t.Helper()
	response, err := http.Get(server.URL + path)
	must.Do(t, err)
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s: %s (%v)", path, response.Status, data, err)
	}
	if named := response.Header.Get("Docker-Content-Digest"); named != digest(t, data) {
		t.Errorf("GET %s: digest header %s, content has %s", path, named, digest(t, data))
	}
	return data
}

// TestPull reads every image as a runtime does: the manifest by tag, the rest by digest.
func TestPull(t *testing.T) {
	handler := must.Get(New(images.All(), programs(t), nil, io.Discard))(t)
	server := httptest.NewServer(handler)
	defer server.Close()
	for _, image := range images.All() {
		tag := must.Get(name.NewTag(image.Name))(t)
		repository := tag.RepositoryStr()
		var manifest v1.Manifest
		must.Do(t, json.Unmarshal(get(t, server, "/v2/"+repository+"/manifests/"+tag.TagStr()+"?ns=docker.io"), &manifest))
		var config v1.ConfigFile
		must.Do(t, json.Unmarshal(get(t, server, "/v2/"+repository+"/blobs/"+manifest.Config.Digest.String()), &config))
		layer := get(t, server, "/v2/"+repository+"/blobs/"+manifest.Layers[0].Digest.String())
		if config.RootFS.DiffIDs[0].String() != digest(t, layer) || config.Architecture != runtime.GOARCH {
			t.Errorf("%s: the configuration does not match this layer and machine: %+v", image.Name, config)
		}
		files := list(t, layer)
		if got := files[config.Config.Entrypoint[0][1:]]; got != "program "+image.Program {
			t.Errorf("%s: %v is %q", image.Name, config.Config.Entrypoint, got)
		}
		for _, dir := range image.Dirs {
			if _, ok := files[dir+"/"]; !ok {
				t.Errorf("%s: no directory %s", image.Name, dir)
			}
		}
	}
}

// list returns the contents of a layer, and fails the test if a name precedes its directory.
func list(t *testing.T, layer []byte) map[string]string {
	t.Helper()
	files := map[string]string{"./": ""}
	archive := tar.NewReader(bytes.NewReader(layer))
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := files[filepath.Dir(strings.TrimSuffix(header.Name, "/"))+"/"]; !ok {
			t.Errorf("%s comes before its directory", header.Name)
		}
		data := must.Get(io.ReadAll(archive))(t)
		files[header.Name] = string(data)
	}
}

func TestRefusals(t *testing.T) {
	dir := programs(t)
	handler := must.Get(New(images.All(), dir, nil, io.Discard))(t)
	for _, test := range []struct {
		method, target string
		status         int
	}{
		{http.MethodGet, "/v2/library/apache/manifests/latest", http.StatusNotFound},
		{http.MethodPut, "/v2/library/nginx/manifests/latest", http.StatusMethodNotAllowed},
		{http.MethodPost, "/v2/library/nginx/blobs/uploads/", http.StatusMethodNotAllowed},
		{http.MethodDelete, "/v2/library/nginx/manifests/latest", http.StatusMethodNotAllowed},
	} {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequest(test.method, test.target, strings.NewReader("{}")))
		if answer.Code != test.status {
			t.Errorf("%s %s: status %d, want %d", test.method, test.target, answer.Code, test.status)
		}
	}
	if _, err := New([]images.Image{{Name: "nginx", Program: "web"}}, dir, nil, io.Discard); err == nil {
		t.Error("a short name is accepted")
	}
	if _, err := New(images.All(), t.TempDir(), nil, io.Discard); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing programs: %v", err)
	}
}

func digest(t *testing.T, data []byte) string {
	t.Helper()
	hash, _, err := v1.SHA256(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return hash.String()
}
