package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/internal/ociimage"
)

// artefact is an image or a chart of a registry.
type artefact struct {
	name, tag string
	content   mutate.Appendable // a v1.Image or a v1.ImageIndex
	digest    v1.Hash
}

// images builds the container images. It pushes none, though the REGISTRY of "make release" is passed
// on to other makes.
func (r *release) images(ctx context.Context) ([]artefact, error) {
	if _, err := r.run(ctx, "make", "--no-print-directory", "images", "IMAGES="+r.path("images"), "TAG="+r.number(), "REGISTRY=", "PLATFORMS="+r.platforms); err != nil {
		return nil, err
	}
	return r.builtImages()
}

// builtImages returns the container images, whose contents are read when they are pushed.
func (r *release) builtImages() (all []artefact, err error) {
	index, err := layout.ImageIndexFromPath(r.path("images"))
	if err != nil {
		return nil, fmt.Errorf("read the images: %w", err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, fmt.Errorf("read the images: %w", err)
	}
	for _, m := range manifest.Manifests {
		tag, err := name.NewTag(m.Annotations[ociimage.RefName])
		if err != nil {
			return nil, fmt.Errorf("read the images: %w", err)
		}
		content, err := index.ImageIndex(m.Digest)
		if err != nil {
			return nil, fmt.Errorf("read the image %s: %w", tag, err)
		}
		all = append(all, artefact{path.Base(tag.RepositoryStr()), tag.TagStr(), content, m.Digest})
	}
	return all, nil
}

// metadata is what Chart.yaml says.
type metadata struct {
	Name       string `json:"name"`
	Version    string `json:"version"`
	AppVersion string `json:"appVersion"`
}

func (r *release) chartMetadata() (m metadata, err error) {
	text, err := os.ReadFile(filepath.Join(r.source, chartDir, "Chart.yaml"))
	if err == nil {
		err = yaml.Unmarshal(text, &m)
	}
	return m, err
}

const (
	chartDir  = "deploy/chart"
	chartName = "charts/pinfold" // in the registry
)

// Media types of charts in registries (helm.sh/helm, pkg/registry).
const (
	chartConfigType types.MediaType = "application/vnd.cncf.helm.config.v1+json"
	chartLayerType  types.MediaType = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

// chart writes the archive of the chart, whose values name the images by their digests, and returns it
// as Helm stores it in a registry.
func (r *release) chart(ctx context.Context, images []artefact) (artefact, error) {
	made := artefact{name: chartName, tag: r.number()}
	files, err := r.chartFiles(ctx, images)
	if err != nil {
		return made, fmt.Errorf("pack the chart: %w", err)
	}
	archive, err := ociimage.Archive(files)
	if err != nil {
		return made, fmt.Errorf("pack the chart: %w", err)
	}
	if err := os.WriteFile(r.path(fmt.Sprintf("pinfold-%s.tgz", r.number())), archive, 0o644); err != nil {
		return made, err
	}
	var description map[string]any
	for _, f := range files {
		if f.Name == "pinfold/Chart.yaml" {
			if err := yaml.Unmarshal(f.Data, &description); err != nil {
				return made, fmt.Errorf("pack the chart: %w", err)
			}
		}
	}
	config, err := json.Marshal(description)
	if err != nil {
		return made, fmt.Errorf("pack the chart: %w", err)
	}
	image, err := chartImage(config, static.NewLayer(archive, chartLayerType))
	if err != nil {
		return made, fmt.Errorf("pack the chart: %w", err)
	}
	made.content = image
	made.digest, err = image.Digest()
	return made, err
}

// helmChart is a chart as Helm stores it in a registry: an image whose configuration is Chart.yaml in
// JSON. It implements what [partial.CompressedToImage] needs.
type helmChart struct {
	v1.Layer
	config, manifest []byte
}

func chartImage(config []byte, layer v1.Layer) (v1.Image, error) {
	described := func(l v1.Layer) (v1.Descriptor, error) {
		d, err := partial.Descriptor(l)
		if err != nil {
			return v1.Descriptor{}, err
		}
		return *d, nil
	}
	configOf, err := described(static.NewLayer(config, chartConfigType))
	if err != nil {
		return nil, err
	}
	layerOf, err := described(layer)
	if err != nil {
		return nil, err
	}
	manifest, err := json.Marshal(v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Config: configOf, Layers: []v1.Descriptor{layerOf}})
	if err != nil {
		return nil, err
	}
	return partial.CompressedToImage(helmChart{layer, config, manifest})
}

// MediaType is that of the image.
func (helmChart) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }

// RawConfigFile returns the configuration.
func (c helmChart) RawConfigFile() ([]byte, error) { return c.config, nil }

// RawManifest returns the manifest.
func (c helmChart) RawManifest() ([]byte, error) { return c.manifest, nil }

// LayerByDigest returns the only layer.
func (c helmChart) LayerByDigest(v1.Hash) (partial.CompressedLayer, error) { return c.Layer, nil }

// chartFiles returns the files of the chart that are in the repository.
func (r *release) chartFiles(ctx context.Context, images []artefact) (files []ociimage.File, err error) {
	list, err := r.run(ctx, "git", "ls-files", "-z", "--", chartDir)
	if err != nil {
		return nil, err
	}
	for file := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		if strings.HasSuffix(file, ".go") {
			continue
		}
		data, err := os.ReadFile(filepath.Join(r.source, filepath.FromSlash(file)))
		if err != nil {
			return nil, err
		}
		name := strings.TrimPrefix(file, chartDir+"/")
		if name == "values.yaml" {
			if data, err = r.values(data, images); err != nil {
				return nil, err
			}
		}
		files = append(files, ociimage.File{Name: path.Join("pinfold", name), Mode: 0o644, Data: data})
	}
	return files, nil
}

// values sets the digests of the images in the chart's values, and where its documents are.
func (r *release) values(values []byte, images []artefact) ([]byte, error) {
	const noBase = `runbookBase: ""`
	text := string(values)
	if strings.Count(text, noBase) != 1 {
		return nil, fmt.Errorf("values.yaml has not one %s", noBase)
	}
	lines := strings.SplitAfter(strings.Replace(text, noBase, fmt.Sprintf("runbookBase: %q", r.docs), 1), "\n")
	for _, image := range images {
		found := false
		for i := range lines {
			if strings.TrimSpace(lines[i]) != "repository: "+image.name {
				continue
			}
			for j := i + 1; j < len(lines) && !found && !strings.HasPrefix(strings.TrimSpace(lines[j]), "repository:"); j++ {
				if found = strings.TrimSpace(lines[j]) == `digest: ""`; found {
					lines[j] = strings.Replace(lines[j], `""`, image.digest.String(), 1)
				}
			}
		}
		if !found {
			return nil, fmt.Errorf("values.yaml has no repository %s with an empty digest", image.name)
		}
	}
	return []byte(strings.Join(lines, "")), nil
}
