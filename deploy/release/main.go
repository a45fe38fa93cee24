// Command release makes a release of Pinfold from a clean checkout of its tag: what users download,
// and what is in a registry. "make release" runs it:
//
//	release -version v0.1.0 -key cosign.key -push registry.example.com/pinfold -url https://example.com/v0.1.0 \
//		-docs https://example.com/pinfold/blob/v0.1.0
//
// A directory below -out gets, and replaces:
//
//	images/                              the container images, an OCI image layout
//	pinfold-0.1.0.tgz                    the chart, which names the images by their digests
//	pinfold_v0.1.0_OS_ARCH.tar.gz        the command pinfold with completions and manual pages
//	pinfold_OS_ARCH.tar.gz, pinfold.yaml the plugin of kubectl, for krew
//	*.cdx.json                           what is linked into each program, in CycloneDX JSON
//	notes.md                             the changes, from CHANGELOG.md
//	provenance.json                      from what and how they were made: a statement of in-toto
//	checksums.txt                        SHA-256 of these files, and the digests of images and chart
//
// With a key there are also checksums.txt.sig, provenance.intoto.jsonl (the signed provenance) and
// cosign.pub, and images and chart in the registry have signatures that "cosign verify" checks. All but
// signatures is the same, byte for byte, for the same tag and Go toolchain.
//
// The exit status is 0 on success, 1 on failure, and 2 on wrong usage.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"pinfold.dev/pinfold/internal/command"
)

func main() { os.Exit(command.Main("release", run)) }

// release is what is made.
type release struct {
	source, version, url, docs, push string
	platforms                        string // of images
	dir                              string // of the result
	commit, time                     string // the tag's, and when it was made, in seconds of Unix time
	stderr                           io.Writer
}

// number is the version as charts and images have it.
func (r *release) number() string { return strings.TrimPrefix(r.version, "v") }

// run runs another program in the repository.
func (r *release) run(ctx context.Context, program string, args ...string) (stdout []byte, err error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // make leaves its children behind
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	cmd.Dir, cmd.Stderr = r.source, r.stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", program, strings.Join(args, " "), err)
	}
	return out, nil
}

func (r *release) path(name ...string) string {
	return filepath.Join(append([]string{r.dir}, name...)...)
}

func run(ctx context.Context, args []string, _, stderr io.Writer) error {
	r := release{stderr: stderr}
	var key, out string
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&r.version, "version", "", "the `tag`, such as v0.1.0")
	flags.StringVar(&r.source, "source", ".", "`directory` of the repository")
	flags.StringVar(&out, "out", "bin/release", "`directory` for a directory of the version")
	flags.StringVar(&r.url, "url", "", "where the archives will be, without their names: a `URL` for krew's manifest")
	flags.StringVar(&r.docs, "docs", "", "where the tag's files can be read: a `URL`, without a slash at its end, for the links of the chart's alerts")
	flags.StringVar(&r.push, "push", "", "push images and chart to this `registry` and path, with the credentials of 'docker login' or 'podman login'")
	flags.StringVar(&r.platforms, "platforms", "linux/amd64,linux/arm64", "platforms of the images, separated by commas")
	flags.StringVar(&key, "key", "", "`file` of the private key that signs, or env://NAME, as of 'cosign generate-key-pair'; its password is in COSIGN_PASSWORD")
	if err := command.Parse(flags, args); err != nil {
		return err
	}
	if !semantic.MatchString(r.version) {
		return fmt.Errorf("%w: -version %q: it must be like v0.1.0", command.ErrUsage, r.version)
	}
	if parsed, err := url.Parse(r.url); err != nil || parsed.Scheme == "" || parsed.Host == "" {
		return fmt.Errorf("%w: -url %q: say where the archives will be, such as https://example.com/releases/%s", command.ErrUsage, r.url, r.version)
	}
	if parsed, err := url.Parse(r.docs); err != nil || parsed.Scheme == "" || parsed.Host == "" || strings.HasSuffix(r.docs, "/") {
		return fmt.Errorf("%w: -docs %q: say where the tag's files can be read, such as https://example.com/pinfold/blob/%s", command.ErrUsage, r.docs, r.version)
	}
	if r.push != "" {
		if _, err := name.NewRepository(r.push+"/x", name.StrictValidation); err != nil {
			return fmt.Errorf("%w: -push %q: give a registry and a path, such as registry.example.com/pinfold (%w)", command.ErrUsage, r.push, err)
		}
	}
	signer, err := loadSigner(key)
	if err != nil {
		return err
	}
	r.dir = filepath.Join(out, r.version)
	return r.make(ctx, signer)
}

var semantic = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`)

// make makes the release in a temporary directory, and moves it to its place when it is complete. Then
// it pushes.
func (r *release) make(ctx context.Context, signer *signer) (err error) {
	if err := r.check(ctx); err != nil {
		return err
	}
	if r.push != "" { // before all is built
		charts, err := name.NewRepository(path.Join(r.push, chartName), name.StrictValidation)
		if err == nil {
			err = remote.CheckPushPermission(charts.Tag(r.number()), authn.DefaultKeychain, http.DefaultTransport)
		}
		if err != nil {
			return fmt.Errorf("-push %s: %w", r.push, err)
		}
	}
	place := r.dir
	if r.dir, err = filepath.Abs(place + ".new"); err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(r.dir), os.MkdirAll(r.dir, 0o755)); err != nil {
		return err
	}
	defer os.RemoveAll(place + ".new") // of what a failure leaves
	artefacts, err := r.images(ctx)
	if err != nil {
		return err
	}
	chart, err := r.chart(ctx, artefacts)
	if err != nil {
		return err
	}
	artefacts = append(artefacts, chart)
	for _, step := range []func(context.Context) error{r.plugin, r.archives, r.notes} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if err := r.describe(ctx, artefacts, signer); err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(place), os.Rename(r.dir, place)); err != nil || r.push == "" {
		return err
	}
	r.dir = place
	if artefacts, err = r.builtImages(); err != nil {
		return err
	}
	return r.pushAll(ctx, append(artefacts, chart), signer)
}

// check checks that the checkout is that of the tag, and that the chart and the changelog are those of
// the version.
func (r *release) check(ctx context.Context) error {
	changes, err := r.run(ctx, "git", "status", "--porcelain")
	if err != nil {
		return err
	}
	if len(changes) > 0 {
		return fmt.Errorf("the checkout has changes, so its programs would not be those of the tag: commit or remove them:\n%s", changes)
	}
	tags, err := r.run(ctx, "git", "tag", "--points-at", "HEAD")
	if err != nil {
		return err
	}
	if got := strings.Fields(string(tags)); len(got) != 1 || got[0] != r.version {
		return fmt.Errorf("the commit has the tags %q, want only %s: check out that tag", got, r.version)
	}
	commit, err := r.run(ctx, "git", "-c", "log.showSignature=false", "log", "-1", "--format=%H %ct")
	if err != nil {
		return err
	}
	r.commit, r.time, _ = strings.Cut(strings.TrimSpace(string(commit)), " ")
	meta, err := r.chartMetadata()
	if err != nil {
		return err
	}
	if meta.Version != r.number() || meta.AppVersion != r.number() {
		return fmt.Errorf("deploy/chart/Chart.yaml has version %s and appVersion %s: set both to %s before the tag", meta.Version, meta.AppVersion, r.number())
	}
	_, err = r.changes()
	return err
}
