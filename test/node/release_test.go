package node

import (
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"pinfold.dev/pinfold/test/cosigned"
	"pinfold.dev/pinfold/test/must"
)

// source is where tests have Pinfold's images from.
type source struct {
	layout string // OCI image layout of the version of the chart, for registry pinfold.dev
	// Of a release:
	files    string // directory of what users download
	registry string // HOST/PATH, to which it was pushed
}

// imagesEnv is the environment variable of a directory with OCI image layouts for registry pinfold.dev:
// "first", and "next", which has the tag next. Without it a release is made.
const imagesEnv = "PINFOLD_TEST_IMAGES"

// made is the release that this program has made, if it has.
var made source

// images makes the release of docs/operations.md, of this working tree and for this machine's architecture
// only, and pushes it to a registry in this program.
func images(t *testing.T) source {
	t.Helper()
	if dir := os.Getenv(imagesEnv); dir != "" {
		return source{layout: filepath.Join(dir, "first")}
	}
	if made.files != "" {
		return made
	}
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skipf("%v: it makes the key of a release", err)
	}
	prepare(t)
	store := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0)))) // as long as this program
	from := source{registry: strings.TrimPrefix(store.URL, "http://") + "/pinfold"}
	checkout := must.Get(os.MkdirTemp(temporary, "checkout-"))(t)
	from.maker(t, repositoryDir).do("tar --exclude=./bin --exclude=./.git -cf - . | tar -xf - -C " + checkout)
	maker, p := from.maker(t, checkout), readPage(t, operationsPage)
	maker.do(`sed -i 's/^## Unreleased$/## v0.1.0/' CHANGELOG.md
git init --quiet
git add --all
git commit --quiet --message "a release"`)
	maker.do(p.text("key"))
	maker.do(p.text("release"))
	from.files = filepath.Join(checkout, "bin/release/v0.1.0")
	from.layout = filepath.Join(from.files, "images")
	from.checkSignatures(t)
	made = from
	return made
}

// checkSignatures checks those of the images and the chart in the registry.
func (f source) checkSignatures(t *testing.T) {
	t.Helper()
	key := must.Get(os.ReadFile(filepath.Join(f.files, "cosign.pub")))(t)
	checked := 0
	for line := range strings.Lines(string(must.Get(os.ReadFile(filepath.Join(f.files, "checksums.txt")))(t))) {
		if artefact, isDigest := strings.CutPrefix(strings.TrimSpace(line), "# "); isDigest { // # NAME:TAG@DIGEST
			tag, digest, _ := strings.Cut(artefact, "@")
			must.Do(t, cosigned.Check(must.Get(name.NewTag(f.registry+"/"+tag))(t).Repository, must.Get(v1.NewHash(digest))(t), key))
			checked++
		}
	}
	if checked != 3 {
		t.Errorf("%d signatures were checked, want those of two images and the chart", checked)
	}
}

// maker returns an operator of a directory with the repository's files.
func (f source) maker(t *testing.T, dir string) *operator {
	const who, address = "test", "test@example.com"
	return &operator{T: t, dir: dir, env: append(os.Environ(), "REGISTRY="+f.registry, "PLATFORMS=linux/"+runtime.GOARCH, "TAG=next",
		"GIT_AUTHOR_NAME="+who, "GIT_AUTHOR_EMAIL="+address, "GIT_COMMITTER_NAME="+who, "GIT_COMMITTER_EMAIL="+address)}
}

// letPull makes a cluster's node pull images from the registry itself; its own one is the mirror of all
// others.
func (f source) letPull(t *testing.T, c *cluster) {
	t.Helper()
	host, _, _ := strings.Cut(f.registry, "/")
	dir := filepath.Join(c.dir, "node/config/hosts", host)
	must.Do(t, os.MkdirAll(dir, 0o755))
	must.Do(t, os.WriteFile(filepath.Join(dir, "hosts.toml"), fmt.Appendf(nil, "server = %q\n", "http://"+host), 0o644))
}

// build executes the page's commands that build from source, except what is built already.
func (f source) build(o *operator, commands string) {
	o.Helper()
	for line := range strings.Lines(commands) {
		switch {
		case !strings.HasPrefix(line, "make "):
			o.do(line)
		case strings.HasPrefix(line, "make images ") && f.files != "":
			f.maker(o.T, repositoryDir).do(line)
		}
	}
}
