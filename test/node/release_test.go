package node

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"

	"pinfold.dev/pinfold/local/localnode"
	localregistry "pinfold.dev/pinfold/local/registry"
	"pinfold.dev/pinfold/test/checkout"
	"pinfold.dev/pinfold/test/must"
)

// The versions of the releases that tests install.
const firstVersion, nextVersion = "0.1.0", "0.2.0"

// releases are releases of this repository, as "make release" makes them, at addresses from which the commands
// of the documents get them.
type releases struct {
	registry, url string
	dir           string // with a directory for each version
}

// releasesEnv is the environment variable of a directory with the releases, for a machine that
// cannot make them.
const releasesEnv = "PINFOLD_TEST_RELEASES"

// madeReleases are those of this program.
var madeReleases *releases

// publish makes releases of some versions with the commands of docs/operations.md, unless they are there.
func publish(t *testing.T, versions ...string) *releases {
	t.Helper()
	for _, program := range []string{"curl", "openssl"} { // of the documents' commands
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%v: install it to run this test", err)
		}
	}
	if madeReleases == nil {
		madeReleases = openReleases(t)
	}
	for _, version := range versions {
		if _, err := os.Stat(filepath.Join(madeReleases.dir, version)); err != nil {
			madeReleases.make(t, version)
		}
	}
	return madeReleases
}

// openReleases serves a registry and a directory until this program ends.
func openReleases(t *testing.T) *releases {
	t.Helper()
	r := &releases{dir: os.Getenv(releasesEnv)}
	address, store := "127.0.0.1:0", registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	if r.dir != "" {
		address, _, _ = strings.Cut(readFile(t, r.file("digests.txt")), "/")
		store = must.Get(localregistry.New(nil, "", []string{r.images(firstVersion), r.images(nextVersion), filepath.Join(r.dir, firstVersion, "chart"), filepath.Join(r.dir, nextVersion, "chart")}, io.Discard))(t)
	} else {
		r.dir = filepath.Join(temporaryDir(t), "releases")
		must.Do(t, os.Mkdir(r.dir, 0o755))
	}
	listener := must.Get(net.Listen("tcp", address))(t)
	go func() { _ = http.Serve(listener, store) }()
	r.registry = listener.Addr().String() + "/pinfold"
	r.url = httptest.NewServer(http.FileServer(http.Dir(r.dir))).URL
	return r
}

// make executes the page's commands for this machine's platform alone, with the same key for each
// version.
func (r *releases) make(t *testing.T, version string) {
	t.Helper()
	source, key := checkout.Copy(t, "v"+version), filepath.Join(temporaryDir(t), "release.key")
	p := readPage(t, operationsPage)
	o := &operator{T: t, dir: source, env: append(os.Environ(), "KEY="+key,
		"PLATFORMS=linux/"+runtime.GOARCH, "REGISTRY="+r.registry, "VERSION="+version, "RELEASE="+r.url+"/"+version)}
	if _, err := os.Stat(key); err != nil {
		o.do(p.text("key"))
	}
	o.do(p.text("make"))
	must.Do(t, os.Rename(filepath.Join(source, "bin", "release"), filepath.Join(r.dir, version)))
}

func (r *releases) images(version string) string { return filepath.Join(r.dir, version, "images") }

// file returns the path of a file of the first version.
func (r *releases) file(name string) string { return filepath.Join(r.dir, firstVersion, name) }

// variables are what the documents' commands name.
func (r *releases) variables() []string {
	return []string{"REGISTRY=" + r.registry, "RELEASE=" + r.url + "/" + firstVersion, "VERSION=" + firstVersion, "NEXT=" + nextVersion}
}

// TestRelease does what a newcomer does with a release, on a stock cluster: the commands of README show which
// containers are throttled, before anything is installed, and then install the agent to observe. Everything is
// verified with the public key first, and a changed file is found.
func TestRelease(t *testing.T) {
	requireNode(t)
	if _, err := os.Stat(filepath.Join(repositoryDir, "bin", "helm4")); err != nil {
		t.Skipf("%v: make bin/helm4", err)
	}
	from := publish(t, firstVersion)
	c := startWith(t, "--stock", "--images", from.images(firstVersion))
	o := newOperator(t, c, append(from.variables(), "NODE="+localnode.Name)...)
	verify := readPage(t, operationsPage).text("release")
	o.write("pinfold.pub", readFile(t, from.file("pinfold.pub")))
	if out := o.do(verify); !strings.Contains(out, "Verified OK") || !strings.Contains(out, "pinfold-"+firstVersion+".tgz: OK") || !strings.Contains(out, "pinfold_linux_amd64.tar.gz: OK") {
		t.Errorf("%s", out)
	}
	o.write("sums", strings.Replace(readFile(t, from.file("SHA256SUMS")), "1", "2", 1))
	if out, err := o.try("base64 -d SHA256SUMS.sig | openssl dgst -sha256 -verify pinfold.pub -signature /dev/stdin sums"); err == nil || !strings.Contains(out, "Verification failure") {
		t.Errorf("changed checksums: %v: %s", err, out)
	}

	readme := readPage(t, repositoryDir+"/README.md")
	limited := c.run(t, podOf("limited", "", container("main", "8001", "200m")))
	defer openKernel(t).spin(t, openKernel(t).containerGroup(limited, "main"))()
	o.do(readme.text("install"))
	top, _, _ := strings.Cut(readme.text("top"), "#")
	if out := o.do(top + "--debug"); !strings.Contains(out, "default/limited/main") {
		t.Errorf("%s", out)
	}
	o.write("site.yaml", merged(t, "", o.siteValues()))
	o.do(strings.TrimSpace(readme.text("observe")) + " --values site.yaml --wait")
	eventually(t, "the table of all nodes", func() error {
		out, err := o.try("kubectl pinfold top")
		if err == nil && !strings.Contains(out, "default/limited/main") {
			err = fmt.Errorf("%s", out)
		}
		return err
	})
	o.do("helm uninstall pinfold --namespace pinfold-system --wait --timeout " + (3 * time.Minute).String())
}
