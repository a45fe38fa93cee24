package registry

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"

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

// TestPull pulls every image as a runtime does.
func TestPull(t *testing.T) {
	server := httptest.NewServer(must.Get(New(images.All(), programs(t), nil, io.Discard))(t))
	defer server.Close()
	for _, image := range images.All() {
		tag := must.Get(name.NewTag(image.Name))(t)
		here := must.Get(name.NewTag(server.Listener.Addr().String() + "/" + tag.RepositoryStr() + ":" + tag.TagStr()))(t)
		pulled := must.Get(remote.Image(here))(t)
		must.Do(t, validate.Image(pulled, validate.Fast)) // all but the layers, which are read below
		config := must.Get(pulled.ConfigFile())(t)
		if !slices.Equal(config.Config.Entrypoint, []string{images.Path(image.Program)}) || !slices.Equal(config.Config.Cmd, image.Args) || config.Architecture != runtime.GOARCH {
			t.Errorf("%s: configuration %+v", image.Name, config)
		}
		content := must.Get(io.ReadAll(mutate.Extract(pulled)))(t)
		for _, want := range append(image.Dirs, "program "+image.Program, "nginx:x:101:101") {
			if !strings.Contains(string(content), want) {
				t.Errorf("%s: no %s", image.Name, want)
			}
		}
	}
}

func TestAnswers(t *testing.T) {
	dir := programs(t)
	handler := must.Get(New(images.All(), dir, nil, io.Discard))(t)
	for _, test := range []struct {
		method, target string
		status         int
	}{
		{http.MethodGet, "/v2/library/nginx/manifests/latest?ns=docker.io", http.StatusOK}, // as containerd asks a mirror
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
