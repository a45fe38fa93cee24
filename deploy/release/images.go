package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"pinfold.dev/pinfold/internal/ociimage"
)

// artefact is what a registry has under a name: the images of a program, a chart, or a signature.
type artefact struct {
	tag     name.Tag
	content mutate.Appendable // a v1.Image or a v1.ImageIndex
	digest  v1.Hash
	lists   map[string][]byte // of modules, by the names of their files
}

func newArtefact(tag name.Tag, content mutate.Appendable) (artefact, error) {
	digest, err := content.Digest()
	return artefact{tag: tag, content: content, digest: digest}, err
}

// String returns the name with the digest.
func (a artefact) String() string { return fmt.Sprintf("%s@%s", a.tag, a.digest) }

// makeImages builds the images alone, writes their layout, and pushes them if it shall.
func (o options) makeImages(ctx context.Context, stdout io.Writer) error {
	all, err := o.images(ctx)
	if err != nil {
		return err
	}
	if err := writeLayout(o.out, all); err != nil {
		return err
	}
	if err := o.pushAll(ctx, all); err != nil {
		return err
	}
	for _, one := range all {
		fmt.Fprintln(stdout, one)
	}
	return nil
}

func writeLayout(dir string, all []artefact) error {
	var named []ociimage.Named
	for _, one := range all {
		named = append(named, ociimage.Named{Name: one.tag.Name(), Content: one.content})
	}
	return ociimage.WriteLayout(dir, named)
}

// pushAll pushes artefacts, if that is wanted.
func (o options) pushAll(ctx context.Context, all []artefact) error {
	for _, one := range all {
		if !o.push {
			break
		}
		fmt.Fprintln(o.progress, "pushing", one.tag)
		auth, with := remote.WithAuthFromKeychain(authn.DefaultKeychain), remote.WithContext(ctx)
		var err error
		switch content := one.content.(type) {
		case v1.ImageIndex:
			err = remote.WriteIndex(one.tag, content, with, auth)
		case v1.Image:
			err = remote.Write(one.tag, content, with, auth)
		}
		if err != nil {
			return fmt.Errorf("push %s: %w", one.tag, err)
		}
	}
	return nil
}

// images builds the images of all programs.
func (o options) images(ctx context.Context) (all []artefact, err error) {
	dir, err := os.MkdirTemp("", "pinfold-images-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	licences := newLicences()
	for _, program := range o.programs {
		index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
		tag, lists := o.tag, map[string][]byte{}
		for _, p := range o.platforms {
			if p.OS != "linux" {
				continue
			}
			fmt.Fprintf(o.progress, "building %s for %s\n", program.name, p)
			paths := []string{filepath.Join(dir, p.Arch, program.name)}
			for _, pkg := range program.more {
				paths = append(paths, filepath.Join(dir, p.Arch, path.Base(pkg)))
			}
			for i, pkg := range append([]string{program.pkg}, program.more...) {
				if err := o.compile(ctx, pkg, paths[i], p); err != nil {
					return nil, err
				}
			}
			made, info, err := program.image(ctx, paths, p, licences)
			if err != nil {
				return nil, fmt.Errorf("image of %s for %s: %w", program.name, p, err)
			}
			if tag == "" {
				tag = tagOf(info.Main.Version)
			}
			if lists[fmt.Sprintf("%s_%s.cdx.json", program.name, p)], err = bom(program.name, info); err != nil {
				return nil, err
			}
			index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: made,
				Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: p.OS, Architecture: p.Arch}}})
		}
		if len(lists) == 0 {
			return nil, fmt.Errorf("%w: images are for linux/amd64 and linux/arm64: add one of them to the platforms", errUsage)
		}
		registry := o.registry
		if registry == "" {
			registry = defaultRegistry
		}
		full, err := name.NewTag(registry+"/"+program.name+":"+tag, name.StrictValidation)
		if err != nil {
			return nil, fmt.Errorf("%w: -tag %q: %w", errUsage, tag, err)
		}
		one, err := newArtefact(full, index)
		if err != nil {
			return nil, err
		}
		one.lists = lists
		all = append(all, one)
	}
	return all, nil
}

// tagOf returns the tag for a version, such as v0.3.1, v0.0.0-20260102150405-0123456789ab+dirty or
// (devel). Tags have no plus signs and parentheses.
func tagOf(version string) string {
	return strings.NewReplacer("+", "-", "(", "", ")", "").Replace(version)
}
