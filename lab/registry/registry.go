// Package registry serves the container images of a local cluster on loopback, as an OCI registry
// from which any container runtime can pull.
//
//	handler, err := registry.New(images.All(), dir, out)
//
// An image has one layer: the static executable, the directories that it or a volume needs, and
// /etc/passwd and /etc/group. Layer, configuration and manifest depend on nothing else, so the same
// executable has the same digest at every start. Layers are not compressed, because they are
// transferred through memory.
//
// The registry is filled before it serves, and is read-only. It identifies a repository by path
// only: docker.io/library/nginx and example.com/library/nginx are the same.
package registry

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"pinfold.dev/pinfold/lab/images"
)

// New returns a registry with the given images. It reads their executables from dir, where they are
// at [images.Path], and logs each request to out.
func New(list []images.Image, dir string, out io.Writer) (http.Handler, error) {
	store := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	executables := map[string][]byte{} // by program
	for _, image := range list {
		if executables[image.Program] == nil {
			data, err := os.ReadFile(filepath.Join(dir, images.Path(image.Program)))
			if err != nil {
				return nil, fmt.Errorf("read the program of image %s: %w", image.Name, err)
			}
			executables[image.Program] = data
		}
		made, err := build(image, executables[image.Program])
		if err == nil {
			err = push(store, image.Name, made)
		}
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", image.Name, err)
		}
	}
	requests := log.New(out, "", log.LstdFlags)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			http.Error(w, "this registry is read-only", http.StatusMethodNotAllowed)
			return
		}
		recorder := &statusRecorder{ResponseWriter: w, status: http.StatusOK}
		store.ServeHTTP(recorder, r)
		requests.Printf("%d %s %s", recorder.status, r.Method, r.URL)
	}), nil
}

// push stores an image with requests of the registry's own protocol.
func push(store http.Handler, image string, content built) error {
	tag, err := name.NewTag(image, name.StrictValidation)
	if err != nil {
		return err
	}
	for _, blob := range [][]byte{content.layer, content.config} {
		target := fmt.Sprintf("/v2/%s/blobs/uploads/?digest=%s", tag.RepositoryStr(), digest(blob))
		if err := send(store, http.MethodPost, target, "application/octet-stream", blob); err != nil {
			return err
		}
	}
	target := fmt.Sprintf("/v2/%s/manifests/%s", tag.RepositoryStr(), tag.TagStr())
	return send(store, http.MethodPut, target, string(types.OCIManifestSchema1), content.manifest)
}

func send(store http.Handler, method, target, contentType string, body []byte) error {
	request := httptest.NewRequest(method, target, bytes.NewReader(body))
	request.Header.Set("Content-Type", contentType)
	answer := httptest.NewRecorder()
	store.ServeHTTP(answer, request)
	if answer.Code != http.StatusCreated {
		return fmt.Errorf("%s %s: status %d: %s", method, target, answer.Code, answer.Body)
	}
	return nil
}

// statusRecorder records the status of a response.
type statusRecorder struct {
	http.ResponseWriter
	status int
}

// WriteHeader records and sends the status.
func (s *statusRecorder) WriteHeader(status int) {
	s.status = status
	s.ResponseWriter.WriteHeader(status)
}
