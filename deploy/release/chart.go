package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/internal/ociimage"
)

// chartDir is the chart, from the root of the repository.
const chartDir = "deploy/chart"

// The media types of a chart in a registry (Helm, HIP-6).
const (
	chartConfig  types.MediaType = "application/vnd.cncf.helm.config.v1+json"
	chartContent types.MediaType = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

// number returns the version without the v, as charts, and the tags of images, have it.
func (o options) number() string { return strings.TrimPrefix(o.version, "v") }

// chart returns the chart of a release, as an archive and as a registry has it. It is the chart of
// the repository with the version, the registry, and in annotations the digests of the images.
func (o options) chart(images []artefact) (archive ociimage.File, pushed artefact, err error) {
	var files []ociimage.File
	root := os.DirFS(chartDir)
	err = fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(root, name)
		if err == nil {
			switch name {
			case "Chart.yaml":
				data, err = edited(data, map[string]string{`(?m)^(version: ).*$`: o.number(), `(?m)^(appVersion: ).*$`: o.number()})
				data = append(data, "annotations:\n"...)
				for _, one := range images {
					data = fmt.Appendf(data, "  pinfold.dev/digest-of-%s: %s\n", path.Base(one.tag.RepositoryStr()), one.digest)
				}
			case "values.yaml":
				data, err = edited(data, map[string]string{`(?m)^(  registry: )""$`: o.registry})
			}
		}
		files = append(files, ociimage.File{Name: "pinfold/" + name, Mode: 0o644, Data: data})
		return err
	})
	if err != nil {
		return archive, pushed, fmt.Errorf("read the chart: %w", err)
	}
	archive = ociimage.File{Name: "pinfold-" + o.number() + ".tgz", Mode: 0o644}
	if archive.Data, err = zipped(files); err != nil {
		return archive, pushed, fmt.Errorf("write %s: %w", archive.Name, err)
	}
	pushed, err = o.packed(archive, files)
	return archive, pushed, err
}

// edited replaces what follows the first group of each expression. It must match once.
func edited(text []byte, edits map[string]string) ([]byte, error) {
	for expression, value := range edits {
		matcher := regexp.MustCompile(expression)
		if n := len(matcher.FindAll(text, -1)); n != 1 {
			return nil, fmt.Errorf("%s is there %d times, want once", expression, n)
		}
		text = matcher.ReplaceAll(text, []byte("${1}"+value))
	}
	return text, nil
}

// packed returns a chart's archive as a registry has it.
func (o options) packed(archive ociimage.File, files []ociimage.File) (pushed artefact, err error) {
	image := chartImage{layer: static.NewLayer(archive.Data, chartContent)}
	for _, file := range files {
		if file.Name == "pinfold/Chart.yaml" {
			if image.config, err = yaml.YAMLToJSON(file.Data); err != nil {
				return pushed, fmt.Errorf("read Chart.yaml: %w", err)
			}
		}
	}
	config, errConfig := partial.Descriptor(static.NewLayer(image.config, chartConfig))
	content, errContent := partial.Descriptor(image.layer)
	if err := errors.Join(errConfig, errContent); err != nil {
		return pushed, err
	}
	manifest := v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Config: *config, Layers: []v1.Descriptor{*content}, Annotations: map[string]string{
		"org.opencontainers.image.title": "pinfold", "org.opencontainers.image.version": o.number(),
	}}
	if image.manifest, err = json.Marshal(manifest); err != nil {
		return pushed, err
	}
	made, err := partial.CompressedToImage(&image)
	if err != nil {
		return pushed, err
	}
	tag, err := name.NewTag(o.registry+"/charts/pinfold:"+o.number(), name.StrictValidation)
	if err != nil {
		return pushed, err
	}
	return newArtefact(tag, made)
}

// chartImage is a chart's manifest, whose configuration is no image's.
type chartImage struct {
	config, manifest []byte
	layer            v1.Layer
}

func (c *chartImage) RawConfigFile() ([]byte, error)    { return c.config, nil }
func (c *chartImage) RawManifest() ([]byte, error)      { return c.manifest, nil }
func (*chartImage) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }

func (c *chartImage) LayerByDigest(v1.Hash) (partial.CompressedLayer, error) { return c.layer, nil }
