// Command images builds the container images of Pinfold: an index with an image per platform for
// the scheduler and for the agent. It needs no container runtime and pulls nothing. It writes an
// OCI image layout, and pushes it to a registry if one is named:
//
//	go run ./deploy/images -o bin/images
//	go run ./deploy/images -o bin/images -push registry.example.com/pinfold
//
// An image contains a static program (the agent's also the command pinfold), the licences of
// everything that is linked into it, and a list of that in CycloneDX JSON. The same source and Go
// toolchain give the same digests.
//
// The exit status is 0 on success, 1 on failure, and 2 on wrong usage.
package main

import (
	"context"
	"errors"
	"flag"
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

	"pinfold.dev/pinfold/internal/command"
	"pinfold.dev/pinfold/internal/ociimage"
)

func main() {
	os.Exit(command.Main("images", func(ctx context.Context, args []string, stdout, stderr io.Writer) error {
		return run(ctx, programs(), args, stdout, stderr)
	}))
}

// defaultRegistry is the registry in the names of images that are not pushed.
const defaultRegistry = "pinfold.dev"

// options are the flags.
type options struct {
	out, push, tag, ldflags string
	architectures           []string
}

func run(ctx context.Context, programs []program, args []string, stdout, stderr io.Writer) error {
	var o options
	var platforms string
	flags := flag.NewFlagSet("images", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.out, "o", "bin/images", "`directory` of the OCI image layout; replaced if there is one")
	flags.StringVar(&o.push, "push", "", "also push to this `registry` and path, such as registry.example.com/pinfold, "+
		"with the credentials of 'docker login' or 'podman login'")
	flags.StringVar(&o.tag, "tag", "", "tag of the images (default: the version in the programs)")
	flags.StringVar(&platforms, "platforms", "linux/amd64,linux/arm64", "platforms, separated by commas")
	flags.StringVar(&o.ldflags, "ldflags", "-s -w", "flags of the Go linker")
	if err := command.Parse(flags, args); err != nil {
		return err
	}
	for platform := range strings.SplitSeq(platforms, ",") {
		architecture, ok := strings.CutPrefix(platform, "linux/")
		if !ok || architecture != "amd64" && architecture != "arm64" {
			return fmt.Errorf("%w: platform %q: there are linux/amd64 and linux/arm64", command.ErrUsage, platform)
		}
		o.architectures = append(o.architectures, architecture)
	}
	if o.push != "" {
		if _, err := name.NewRepository(o.push+"/x", name.StrictValidation); err != nil {
			return fmt.Errorf("%w: -push %q: give a registry and a path, such as registry.example.com/pinfold (%w)", command.ErrUsage, o.push, err)
		}
	}
	all, err := o.build(ctx, programs, stderr)
	if err != nil {
		return err
	}
	var named []ociimage.Named
	for _, one := range all {
		named = append(named, ociimage.Named{Name: one.tag.Name(), Content: one.index})
	}
	if err := ociimage.WriteLayout(o.out, named); err != nil {
		return err
	}
	for _, one := range all {
		if o.push != "" {
			fmt.Fprintln(stderr, "pushing", one.tag)
			if err := remote.WriteIndex(one.tag, one.index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
				return fmt.Errorf("push %s: %w", one.tag, err)
			}
		}
		digest, err := one.index.Digest()
		if err != nil {
			return err
		}
		fmt.Fprintf(stdout, "%s@%s\n", one.tag, digest)
	}
	return nil
}

// built is an index under its name.
type built struct {
	tag   name.Tag
	index v1.ImageIndex
}

// build builds all images.
func (o options) build(ctx context.Context, programs []program, stderr io.Writer) (all []built, err error) {
	dir, err := os.MkdirTemp("", "pinfold-images-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	licences := newLicences()
	for _, program := range programs {
		index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
		tag := o.tag
		for _, architecture := range o.architectures {
			fmt.Fprintf(stderr, "building %s for linux/%s\n", program.name, architecture)
			paths := []string{filepath.Join(dir, architecture, program.name)}
			for _, pkg := range program.more {
				paths = append(paths, filepath.Join(dir, architecture, path.Base(pkg)))
			}
			for i, pkg := range append([]string{program.pkg}, program.more...) {
				if err := compile(ctx, pkg, paths[i], architecture, o.ldflags, stderr); err != nil {
					return nil, err
				}
			}
			made, version, err := program.image(ctx, paths, architecture, licences)
			if err != nil {
				return nil, fmt.Errorf("image of %s for linux/%s: %w", program.name, architecture, err)
			}
			if tag == "" {
				tag = tagOf(version)
			}
			index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: made,
				Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: architecture}}})
		}
		registry := o.push
		if registry == "" {
			registry = defaultRegistry
		}
		full, err := name.NewTag(registry+"/"+program.name+":"+tag, name.StrictValidation)
		if err != nil {
			return nil, fmt.Errorf("%w: -tag %q: %w", command.ErrUsage, tag, err)
		}
		all = append(all, built{full, index})
	}
	return all, nil
}

// tagOf returns the tag for a version, such as v0.3.1, v0.0.0-20260102150405-0123456789ab+dirty or
// (devel). Tags have no plus signs and parentheses.
func tagOf(version string) string {
	return strings.NewReplacer("+", "-", "(", "", ")", "").Replace(version)
}
