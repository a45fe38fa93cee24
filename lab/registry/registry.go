package registry

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/registry"

	"pinfold.dev/pinfold/lab/images"
)

// New returns a registry that has the images, with executables from a directory in
// which they are as [images.Path] says. It writes a line for each request to out.
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
		if err != nil {
			return nil, err
		}
		if err := push(store, image.Name, made); err != nil {
			return nil, fmt.Errorf("image %s: %w", image.Name, err)
		}
	}
	lines := log.New(out, "", log.LstdFlags)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			http.Error(w, "this registry is read only", http.StatusMethodNotAllowed)
			return
		}
		answer := &answer{ResponseWriter: w, status: http.StatusOK}
		store.ServeHTTP(answer, r)
		lines.Printf("%d %s %s", answer.status, r.Method, r.URL)
	}), nil
}

// Split divides a full image name: the host that it is pulled from, the path of its
// repository there, and its tag.
func Split(name string) (host, repository, tag string, err error) {
	host, rest, ok1 := strings.Cut(name, "/")
	repository, tag, ok2 := strings.Cut(rest, ":")
	if !ok1 || !ok2 || host == "" || repository == "" || tag == "" {
		return "", "", "", fmt.Errorf("image name %q is not HOST/REPOSITORY:TAG", name)
	}
	return host, repository, tag, nil
}

// push stores an image by the registry's own requests.
func push(store http.Handler, name string, image built) error {
	_, repository, tag, err := Split(name)
	if err != nil {
		return err
	}
	for _, blob := range [][]byte{image.layer, image.config} {
		target := fmt.Sprintf("/v2/%s/blobs/uploads/?digest=%s", repository, digest(blob))
		if err := send(store, http.MethodPost, target, "application/octet-stream", blob); err != nil {
			return err
		}
	}
	const manifestType = "application/vnd.oci.image.manifest.v1+json"
	return send(store, http.MethodPut, fmt.Sprintf("/v2/%s/manifests/%s", repository, tag), manifestType, image.manifest)
}

func send(store http.Handler, method, target, contentType string, body []byte) error {
	request, err := http.NewRequestWithContext(context.Background(), method, target, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, target, err)
	}
	request.Header.Set("Content-Type", contentType)
	taken := &answer{status: http.StatusOK}
	taken.ResponseWriter = &taken.text
	store.ServeHTTP(taken, request)
	if taken.status != http.StatusCreated {
		return fmt.Errorf("%s %s: status %d: %s", method, target, taken.status, taken.text.String())
	}
	return nil
}

// answer notes the status of a response.
type answer struct {
	http.ResponseWriter
	status int
	text   memory
}

// WriteHeader notes the status.
func (a *answer) WriteHeader(status int) {
	a.status = status
	a.ResponseWriter.WriteHeader(status)
}

// memory is a response that stays in this process.
type memory struct {
	bytes.Buffer
	header http.Header
}

// Header returns the response's header.
func (m *memory) Header() http.Header {
	if m.header == nil {
		m.header = http.Header{}
	}
	return m.header
}

// WriteHeader is the answer's business.
func (m *memory) WriteHeader(int) {}
