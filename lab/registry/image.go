package registry

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path"
	"runtime"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"pinfold.dev/pinfold/lab/images"
)

// built contains the parts of an image as a registry stores them.
type built struct {
	layer, config, manifest []byte
}

// The users and groups of every image.
const (
	passwd = "root:x:0:0:root:/root:/sbin/nologin\nnginx:x:101:101:nginx:/nonexistent:/sbin/nologin\nnobody:x:65534:65534:nobody:/:/sbin/nologin\n"
	groups = "root:x:0:\nnginx:x:101:\nnogroup:x:65534:\n"
)

// build returns an image of an executable.
func build(image images.Image, executable []byte) (built, error) {
	layer, err := layerOf(image, executable)
	if err != nil {
		return built{}, err
	}
	program := images.Path(image.Program)
	config, err := json.Marshal(v1.ConfigFile{
		Architecture: runtime.GOARCH,
		OS:           "linux",
		Config: v1.Config{
			Entrypoint: []string{program},
			Cmd:        image.Args,
			Env:        []string{"PATH=" + path.Dir(program)},
			WorkingDir: "/",
		},
		RootFS: v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{digest(layer)}},
	})
	if err != nil {
		return built{}, fmt.Errorf("encode the configuration: %w", err)
	}
	manifest, err := json.Marshal(v1.Manifest{
		SchemaVersion: 2,
		MediaType:     types.OCIManifestSchema1,
		Config:        v1.Descriptor{MediaType: types.OCIConfigJSON, Size: int64(len(config)), Digest: digest(config)},
		Layers: []v1.Descriptor{
			{MediaType: types.OCIUncompressedLayer, Size: int64(len(layer)), Digest: digest(layer)},
		},
	})
	if err != nil {
		return built{}, fmt.Errorf("encode the manifest: %w", err)
	}
	return built{layer: layer, config: config, manifest: manifest}, nil
}

// layerOf returns the layer as a tar archive without times, directories before their contents.
func layerOf(image images.Image, executable []byte) ([]byte, error) {
	program := strings.TrimPrefix(images.Path(image.Program), "/")
	var out bytes.Buffer
	archive := tar.NewWriter(&out)
	for _, dir := range directories(append([]string{path.Dir(program), "etc"}, image.Dirs...)) {
		mode := int64(0o755)
		if dir == "tmp" {
			mode = 0o1777
		}
		if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: mode}); err != nil {
			return nil, fmt.Errorf("add %s: %w", dir, err)
		}
	}
	for _, file := range []struct {
		name string
		mode int64
		data []byte
	}{
		{"etc/group", 0o644, []byte(groups)},
		{"etc/passwd", 0o644, []byte(passwd)},
		{program, 0o755, executable},
	} {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: file.name, Mode: file.mode, Size: int64(len(file.data))}
		if err := archive.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("add %s: %w", file.name, err)
		}
		if _, err := archive.Write(file.data); err != nil {
			return nil, fmt.Errorf("add %s: %w", file.name, err)
		}
	}
	if err := archive.Close(); err != nil {
		return nil, fmt.Errorf("end the layer: %w", err)
	}
	return out.Bytes(), nil
}

// directories returns the wanted directories and all their parents, parents first.
func directories(wanted []string) []string {
	var all []string
	for _, dir := range wanted {
		for ; dir != "."; dir = path.Dir(dir) {
			all = append(all, dir)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func digest(data []byte) v1.Hash {
	sum := sha256.Sum256(data)
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum[:])}
}
