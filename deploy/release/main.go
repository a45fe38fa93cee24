// Command release makes what is published of Pinfold. It needs Go and git, and no container runtime:
//
//	release images -o bin/images [-push registry.example.com/pinfold]
//	release cli -version v0.1.0 -url https://example.com/v0.1.0 -o bin/cli
//	release all -version v0.1.0 -registry registry.example.com/pinfold -url https://example.com/v0.1.0 \
//	    -key cosign.key -o bin/release [-push]
//
// "images" builds the container images of scheduler and agent, "cli" the archives of the command pinfold
// with a manifest for krew (krew.sigs.k8s.io), and "all" both from the tag of a version, with the
// chart that names these images by digest, lists of what is linked (CycloneDX), provenance (SLSA), notes,
// checksums and signatures. The same source, Go toolchain and key give the same bytes.
//
// The exit status is 0 on success, 1 on failure, and 2 on wrong usage.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/google/go-containerregistry/pkg/name"

	"pinfold.dev/pinfold/internal/ociimage"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	err := run(ctx, programs(), os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUsage):
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("wrong usage; see -help")

// platform is a platform on which programs run.
type platform struct{ OS, Arch string }

func (p platform) String() string { return p.OS + "_" + p.Arch }

// platforms returns all platforms, in the order of the manifest. Images are for those of Linux.
func platforms() []platform {
	return []platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}}
}

// defaultRegistry is the registry in the names of images that are not pushed.
const defaultRegistry = "pinfold.dev"

// options are the flags.
type options struct {
	out, registry, tag, ldflags string
	version, url, key           string
	push                        bool
	platforms                   []platform
	programs                    []program
	progress                    io.Writer
}

func run(ctx context.Context, programs []program, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 || !slices.Contains([]string{"images", "cli", "all"}, args[0]) {
		return fmt.Errorf("%w: name what to make: images, cli or all", errUsage)
	}
	o := options{programs: programs, progress: stderr}
	if err := o.parse(args[0], args[1:]); err != nil {
		return err
	}
	switch args[0] {
	case "images":
		return o.makeImages(ctx, stdout)
	case "cli":
		files, err := o.archives(ctx)
		if err != nil {
			return err
		}
		return ociimage.ReplaceDir(o.out, replaceable, func(dir string) error { return writeFiles(dir, files) })
	default:
		return o.release(ctx, stdout)
	}
}

// parse reads the flags of what is to be made.
func (o *options) parse(what string, args []string) error {
	flags := flag.NewFlagSet(what, flag.ContinueOnError)
	flags.SetOutput(o.progress)
	flags.StringVar(&o.ldflags, "ldflags", "-s -w", "flags of the Go linker")
	names := flags.String("platforms", "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64", "platforms, separated by commas; images are for those of Linux")
	switch what {
	case "images":
		flags.StringVar(&o.out, "o", "bin/images", "`directory` of the OCI image layout; replaced if there is one")
		flags.StringVar(&o.registry, "push", "", "also push to this `registry` and path, such as registry.example.com/pinfold, "+
			"with the credentials of 'docker login' or 'podman login'")
		flags.StringVar(&o.tag, "tag", "", "tag of the images (default: the version in the programs)")
	case "all":
		flags.StringVar(&o.registry, "registry", "", "`registry` and path of images and chart, such as registry.example.com/pinfold")
		flags.BoolVar(&o.push, "push", false, "push images, chart and signatures, with the credentials of 'docker login' or 'podman login'")
		flags.StringVar(&o.key, "key", "", "`file` with the private key that signs, such as one of 'cosign generate-key-pair'; its password is in COSIGN_PASSWORD")
		fallthrough
	case "cli":
		flags.StringVar(&o.out, "o", "bin/release", "`directory` to write to; replaced if it contains a release")
		flags.StringVar(&o.version, "version", "", "the `version`, such as v0.1.0")
		flags.StringVar(&o.url, "url", "", "where the files will be, without their names")
	}
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%w: what is %q?", errUsage, flags.Arg(0))
	}
	for one := range strings.SplitSeq(*names, ",") {
		i := slices.IndexFunc(platforms(), func(p platform) bool { return p.OS+"/"+p.Arch == one })
		if i < 0 {
			return fmt.Errorf("%w: platform %q: there are linux/amd64, linux/arm64, darwin/amd64 and darwin/arm64", errUsage, one)
		}
		o.platforms = append(o.platforms, platforms()[i])
	}
	if err := o.check(what); err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	return nil
}

var semantic = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`)

// check rejects what would be refused later, or end up in the wrong place.
func (o *options) check(what string) error {
	if o.registry != "" || what == "all" {
		if _, err := name.NewRepository(o.registry+"/x", name.StrictValidation); err != nil {
			return fmt.Errorf("the registry %q: give a registry and a path, such as registry.example.com/pinfold (%w)", o.registry, err)
		}
	}
	if what == "images" {
		o.push = o.registry != ""
		return nil
	}
	if !semantic.MatchString(o.version) {
		return fmt.Errorf("the version %q is not like v0.1.0: give VERSION", o.version)
	}
	o.url = strings.TrimSuffix(o.url, "/")
	if parsed, err := url.Parse(o.url); err != nil || parsed.Scheme == "" || parsed.Host == "" {
		return fmt.Errorf("the URL %q is not one of a directory: give URL, such as https://example.com/releases/v0.1.0", o.url)
	}
	if err := replaceable(o.out); err != nil {
		return err
	}
	if what == "all" && o.key == "" {
		return errors.New("a release is signed: give KEY, a file with a private key, such as one of 'cosign generate-key-pair'")
	}
	return nil
}
