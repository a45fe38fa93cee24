// Package registry serves the container images of a local cluster on loopback, as an OCI registry
// from which any container runtime can pull.
//
//	handler, err := registry.New(images.All(), dir, nil, out)
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
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"pinfold.dev/pinfold/internal/ociimage"
	"pinfold.dev/pinfold/local/images"
)

// New returns a registry with the given images and those of the layouts, which are directories with
// OCI image layouts. It reads the executables of the given images from dir, where they are at
// [images.Path], and logs each request to out.
func New(list []images.Image, dir string, layouts []string, out io.Writer) (http.Handler, error) {
	store := registry.New(registry.Logger(log.New(out, "", log.LstdFlags)))
	pusher, err := remote.NewPusher(remote.WithTransport(handlerTransport{store}))
	if err != nil {
		return nil, fmt.Errorf("fill the registry: %w", err)
	}
	push := func(image string, content remote.Taggable) error {
		tag, err := name.NewTag(image, name.StrictValidation, name.Insecure)
		if err == nil {
			err = pusher.Push(context.Background(), tag, content)
		}
		if err != nil {
			return fmt.Errorf("image %q: %w", image, err)
		}
		return nil
	}
	for _, image := range list {
		made, err := build(image, dir)
		if err == nil {
			err = push(image.Name, made)
		}
		if err != nil {
			return nil, err
		}
	}
	for _, dir := range layouts {
		if err := pushLayout(push, dir); err != nil {
			return nil, fmt.Errorf("OCI image layout %s: %w", dir, err)
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			http.Error(w, "this registry is read-only", http.StatusMethodNotAllowed)
			return
		}
		store.ServeHTTP(w, r)
	}), nil
}

// pushLayout pushes the images of an OCI image layout, under the names in their annotations
// [ociimage.RefName].
func pushLayout(push func(image string, content remote.Taggable) error, dir string) error {
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return err
	}
	if len(manifest.Manifests) == 0 {
		return errors.New("it has no images")
	}
	for _, descriptor := range manifest.Manifests {
		var content remote.Taggable
		image := descriptor.Annotations[ociimage.RefName]
		if descriptor.MediaType.IsIndex() {
			content, err = index.ImageIndex(descriptor.Digest)
		} else {
			content, err = index.Image(descriptor.Digest)
		}
		if err != nil {
			return fmt.Errorf("image %q: %w", image, err)
		}
		if err := push(image, content); err != nil {
			return err
		}
	}
	return nil
}

// handlerTransport answers requests with a handler of this process.
type handlerTransport struct{ http.Handler }

// RoundTrip sends the request to the handler.
func (h handlerTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	if request.Body == nil {
		request.Body = http.NoBody // as in a request without a body that a server has received
	}
	recorder := httptest.NewRecorder()
	h.ServeHTTP(recorder, request)
	answer := recorder.Result()
	answer.Request = request
	return answer, nil
}
