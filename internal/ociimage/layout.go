package ociimage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// Named is an image, or an index of the images for several architectures, with its name.
type Named struct {
	Name    string            // HOST/REPOSITORY:TAG
	Content mutate.Appendable // a v1.Image or a v1.ImageIndex
}

// WriteLayout writes an OCI image layout with the given images. It writes nothing on an error,
// replaces a layout, and returns an error if the directory contains anything else. Images have
// their names in the annotation [RefName].
func WriteLayout(dir string, all []Named) error {
	return ReplaceDir(dir, replaceable, func(dir string) error {
		path, err := layout.Write(dir, empty.Index)
		if err != nil {
			return err
		}
		for _, one := range all {
			if err := add(path, one); err != nil {
				return fmt.Errorf("write %s: %w", one.Name, err)
			}
		}
		return nil
	})
}

// ReplaceDir replaces a directory by what write writes into another one: all of it, or on an error
// nothing. Before, replaceable returns an error if the directory contains anything else.
func ReplaceDir(dir string, replaceable, write func(dir string) error) error {
	if err := replaceable(dir); err != nil {
		return err
	}
	parent := filepath.Dir(filepath.Clean(dir))
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	temporary, err := os.MkdirTemp(parent, ".new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temporary) // of what a failure leaves
	if err := os.Chmod(temporary, 0o755); err != nil {
		return err
	}
	if err := write(temporary); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.Rename(temporary, dir)
}

// replaceable returns an error if a directory contains anything but a layout.
func replaceable(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = os.Stat(filepath.Join(dir, layoutFile))
	for _, entry := range entries {
		if !slices.Contains([]string{layoutFile, "index.json", "blobs"}, entry.Name()) || err != nil {
			return fmt.Errorf("%s is not empty and no OCI image layout: name another directory with -o", dir)
		}
	}
	return nil
}

// layoutFile is in every layout (OCI image specification).
const layoutFile = "oci-layout"

func add(path layout.Path, one Named) error {
	named := layout.WithAnnotations(map[string]string{RefName: one.Name})
	switch content := one.Content.(type) {
	case v1.ImageIndex:
		return path.AppendIndex(content, named)
	case v1.Image:
		return path.AppendImage(content, named)
	}
	return fmt.Errorf("a %T is neither an image nor an index", one.Content)
}
