// Package ociimage makes OCI images of files, without a container runtime and without a base image.
//
//	image, err := ociimage.Build(ociimage.Spec{Architecture: "arm64", Files: files, Config: config})
//
// An image has one layer. It depends on nothing but its [Spec]: entries are sorted, belong to root
// and have no times.
package ociimage

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// RefName is the annotation with which an OCI image layout names an image (OCI image specification,
// annotations).
const RefName = "org.opencontainers.image.ref.name"

// File is a file of an image.
type File struct {
	Name string // path without leading slash
	Mode int64  // permissions
	Data []byte
}

// Spec describes an image.
type Spec struct {
	Architecture string // as GOARCH
	Files        []File
	Dirs         []string // empty directories without leading slash; tmp is writable for all
	Config       v1.Config
	Compress     bool // the layer is compressed
}

// Build returns the image for Linux.
func Build(s Spec) (v1.Image, error) {
	data, err := Tar(s.Files, s.Dirs...)
	if err != nil {
		return nil, err
	}
	layer := static.NewLayer(data, types.OCIUncompressedLayer)
	if s.Compress {
		open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
		layer, err = tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(gzip.BestSpeed))
		if err != nil {
			return nil, err
		}
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.AppendLayers(base, layer)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Config, config.History = "linux", s.Architecture, s.Config, nil
	return mutate.ConfigFile(image, config)
}

// Tar returns a tar archive: all directories, parents first, and then the files.
func Tar(files []File, dirs ...string) ([]byte, error) {
	var out bytes.Buffer
	archive := tar.NewWriter(&out)
	for _, dir := range allDirs(files, dirs) {
		mode := int64(0o755)
		if dir == "tmp" {
			mode = 0o1777
		}
		if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: mode}); err != nil {
			return nil, fmt.Errorf("add %s: %w", dir, err)
		}
	}
	files = slices.SortedFunc(slices.Values(files), func(a, b File) int { return cmp.Compare(a.Name, b.Name) })
	for i, file := range files {
		if i > 0 && files[i-1].Name == file.Name {
			return nil, fmt.Errorf("there are two files %s", file.Name)
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: file.Name, Mode: file.Mode, Size: int64(len(file.Data))}
		err := archive.WriteHeader(header)
		if err == nil {
			_, err = archive.Write(file.Data)
		}
		if err != nil {
			return nil, fmt.Errorf("add %s: %w", file.Name, err)
		}
	}
	if err := archive.Close(); err != nil {
		return nil, fmt.Errorf("end the layer: %w", err)
	}
	return out.Bytes(), nil
}

// Archive returns a compressed tar archive of files, which depends on nothing else.
func Archive(files []File) ([]byte, error) {
	data, err := Tar(files)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	_, err = zip.Write(data)
	err = errors.Join(err, zip.Close())
	return out.Bytes(), err
}

// allDirs returns the directories, those of files, and all their parents, parents first.
func allDirs(files []File, dirs []string) (all []string) {
	dirs = slices.Clone(dirs)
	for _, file := range files {
		dirs = append(dirs, path.Dir(file.Name))
	}
	for _, dir := range dirs {
		for ; dir != "."; dir = path.Dir(dir) {
			all = append(all, dir)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
