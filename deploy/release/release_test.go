package main

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"maps"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/dsse"
	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/internal/ociimage"
	"pinfold.dev/pinfold/test/cosigned"
	"pinfold.dev/pinfold/test/must"
)

// repository is a small repository with a tag, whose Makefile and command have what a release needs,
// and the chart.
type repository struct {
	t   *testing.T
	dir string
	key string // file
}

const version = "v0.1.0"

func newRepository(t *testing.T) *repository {
	t.Helper()
	r := &repository{t: t, dir: t.TempDir(), key: filepath.Join(t.TempDir(), "cosign.key")}
	must.Do(t, os.CopyFS(filepath.Join(r.dir, chartDir), os.DirFS("../chart")))
	r.write("LICENSE", "A licence.\n")
	r.write("CHANGELOG.md", "# Changelog\n\n## Unreleased\n\n- Later.\n\n## v0.1.0, 2026-12-01\n\n- First.\n\n## v0.0.1\n")
	r.write("go.mod", "module example.com/pinfold\n\ngo 1.26\n")
	r.write("cmd/pinfold/main.go", `package main

import (
	"fmt"
	"os"
)

func main() {
	if err := os.MkdirAll(os.Args[2]+"/man/man1", 0o755); err != nil {
		panic(err)
	}
	if err := os.WriteFile(os.Args[2]+"/man/man1/pinfold.1", []byte(fmt.Sprintln(os.Args[3])), 0o644); err != nil {
		panic(err)
	}
}
`)
	images := filepath.Join(t.TempDir(), "images")
	var all []ociimage.Named
	for _, program := range []string{"pinfold-scheduler", "pinfold-agent"} {
		image := must.Get(ociimage.Build(ociimage.Spec{Architecture: "amd64", Files: []ociimage.File{{Name: program, Mode: 0o755}}}))(t)
		all = append(all, ociimage.Named{Name: "pinfold.dev/" + program + ":0.1.0", Content: mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: image})})
	}
	must.Do(t, ociimage.WriteLayout(images, all))
	r.write("Makefile", `images:
	test -z "$(REGISTRY)"
	cp -r `+images+` $(IMAGES)
krew:
	go build -o $(KREW)/linux_amd64/kubectl-pinfold ./cmd/pinfold
	echo "$(VERSION) $(URL)" >$(KREW)/pinfold.yaml
`)
	r.do("git", "init", "--quiet")
	r.commit()
	r.do("git", "tag", version)

	private := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	t.Setenv("COSIGN_PASSWORD", "secret")
	t.Setenv("MAKEFLAGS", " -- REGISTRY=elsewhere.example.com/team") // as in "make release"
	encrypted := must.Get(cryptoutils.MarshalPrivateKeyToEncryptedDER(private, func(bool) ([]byte, error) { return []byte("secret"), nil }))(t)
	must.Do(t, os.WriteFile(r.key, pem.EncodeToMemory(&pem.Block{Type: string(cryptoutils.EncryptedSigstorePrivateKeyPEMType), Bytes: encrypted}), 0o600))
	return r
}

func (r *repository) write(name, text string) {
	r.t.Helper()
	name = filepath.Join(r.dir, name)
	must.Do(r.t, os.MkdirAll(filepath.Dir(name), 0o755))
	must.Do(r.t, os.WriteFile(name, []byte(text), 0o644))
}

func (r *repository) do(command ...string) {
	r.t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com",
		"GIT_COMMITTER_DATE=1800000000 +0000")
	if out, err := cmd.CombinedOutput(); err != nil {
		r.t.Fatalf("%q: %v\n%s", command, err, out)
	}
}

func (r *repository) commit() {
	r.t.Helper()
	r.do("git", "add", "--all")
	r.do("git", "commit", "--quiet", "--message", "a change")
}

// release makes a release, and returns its files.
func (r *repository) release(out string, more ...string) (map[string]string, error) {
	var stderr bytes.Buffer
	err := run(r.t.Context(), append([]string{"-version", version, "-source", r.dir, "-out", out, "-url", "https://example.com/" + version,
		"-docs", "https://example.com/pinfold/blob/" + version}, more...), io.Discard, &stderr)
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	dir := filepath.Join(out, version)
	for _, entry := range must.Get(os.ReadDir(dir))(r.t) {
		if !entry.IsDir() {
			files[entry.Name()] = string(must.Get(os.ReadFile(filepath.Join(dir, entry.Name())))(r.t))
		}
	}
	return files, nil
}

// TestRelease makes a release twice, pushes it, and checks it as a user does.
func TestRelease(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	r := newRepository(t)
	out := t.TempDir()
	files := must.Get(r.release(out, "-key", r.key, "-push", host+"/team"))(t)
	want := []string{"checksums.txt", "checksums.txt.sig", "cosign.pub", "notes.md", "pinfold-0.1.0.tgz", "pinfold.yaml",
		"pinfold_v0.1.0_linux_amd64.cdx.json", "pinfold_v0.1.0_linux_amd64.tar.gz", "provenance.intoto.jsonl", "provenance.json"}
	if got := slices.Sorted(maps.Keys(files)); !slices.Equal(got, want) {
		t.Errorf("files %q, want %q", got, want)
	}
	if files["notes.md"] != "- First.\n" || files["pinfold.yaml"] != "v0.1.0 https://example.com/v0.1.0\n" {
		t.Errorf("notes %q, manifest %q", files["notes.md"], files["pinfold.yaml"])
	}
	again := must.Get(r.release(t.TempDir()))(t)
	for name, data := range again {
		if data != files[name] {
			t.Errorf("%s differs in the second release", name)
		}
	}
	if len(again) != len(files)-3 {
		t.Errorf("without a key there are %d files", len(again))
	}
	t.Setenv("PRIVATE_KEY", string(must.Get(os.ReadFile(r.key))(t)))
	if signed := must.Get(r.release(t.TempDir(), "-key", "env://PRIVATE_KEY"))(t); signed["cosign.pub"] != files["cosign.pub"] {
		t.Errorf("the key from a variable is another: %s", signed["cosign.pub"])
	}
	dir := filepath.Join(out, version)
	shell(t, dir, "sha256sum --check --strict --quiet checksums.txt")
	if _, err := exec.LookPath("openssl"); err == nil {
		shell(t, dir, "base64 --decode checksums.txt.sig >sig && openssl dgst -sha256 -verify cosign.pub -signature sig checksums.txt")
	}
	listed := shell(t, dir, "tar -tzf pinfold_v0.1.0_linux_amd64.tar.gz")
	if want := "man/\nman/man1/\nLICENSE\nman/man1/pinfold.1\npinfold\n"; listed != want {
		t.Errorf("the archive has %q, want %q", listed, want)
	}
	if page := shell(t, dir, "tar -xzOf pinfold_v0.1.0_linux_amd64.tar.gz man/man1/pinfold.1"); page != "1800000000\n" {
		t.Errorf("the page has the time %q", page)
	}
	checkStatement(t, files)

	verifier := must.Get(signature.LoadVerifier(must.Get(cryptoutils.UnmarshalPEMToPublicKey([]byte(files["cosign.pub"])))(t), crypto.SHA256))(t)
	must.Do(t, dsse.WrapVerifier(verifier).VerifySignature(strings.NewReader(files["provenance.intoto.jsonl"]), nil))
	if envelope := files["provenance.intoto.jsonl"]; !strings.Contains(envelope, base64.StdEncoding.EncodeToString([]byte(files["provenance.json"]))) {
		t.Errorf("the envelope has another statement: %s", envelope)
	}
	for _, repository := range []string{"pinfold-scheduler", "pinfold-agent", "charts/pinfold"} {
		tag := must.Get(name.NewTag(host + "/team/" + repository + ":0.1.0"))(t)
		digest := must.Get(remote.Head(tag))(t).Digest
		if !strings.Contains(files["checksums.txt"], "# "+repository+":0.1.0@"+digest.String()+"\n") {
			t.Errorf("checksums.txt does not have the digest %s of %s", digest, repository)
		}
		must.Do(t, cosigned.Check(tag.Repository, digest, []byte(files["cosign.pub"])))
	}
	checkChart(t, host, files)
}

// checkStatement checks the provenance.
func checkStatement(t *testing.T, files map[string]string) {
	t.Helper()
	var statement struct {
		Type    string `json:"_type"`
		Subject []struct {
			Name   string
			Digest map[string]string
		}
		Predicate struct {
			BuildDefinition struct {
				ResolvedDependencies []struct{ Digest map[string]string }
			}
		}
	}
	must.Do(t, json.Unmarshal([]byte(files["provenance.json"]), &statement))
	for _, s := range statement.Subject {
		if !strings.Contains(files["checksums.txt"], s.Digest["sha256"]) {
			t.Errorf("checksums.txt lacks %s", s.Name)
		}
	}
	if from := statement.Predicate.BuildDefinition.ResolvedDependencies; len(statement.Subject) != 8 || len(from) != 1 || len(from[0].Digest["gitCommit"]) != 40 {
		t.Errorf("provenance of %d files: %+v", len(statement.Subject), from)
	}
}

// checkChart pulls the chart with Helm.
func checkChart(t *testing.T, host string, files map[string]string) {
	t.Helper()
	helm := must.Get(filepath.Abs("../../bin/helm4"))(t)
	if _, err := os.Stat(helm); err != nil {
		t.Logf("%v: make bin/helm4", err)
		return
	}
	dir := t.TempDir()
	shell(t, dir, helm+" pull oci://"+host+"/team/charts/pinfold --plain-http --version 0.1.0")
	if pulled := string(must.Get(os.ReadFile(filepath.Join(dir, "pinfold-0.1.0.tgz")))(t)); pulled != files["pinfold-0.1.0.tgz"] {
		t.Error("Helm pulls another chart than that of the release")
	}
	manifest := shell(t, dir, helm+" template pinfold pinfold-0.1.0.tgz --set monitoring.prometheusRule.enabled=true,image.registry="+host+"/team")
	if link := "runbook_url: https://example.com/pinfold/blob/v0.1.0/docs/monitoring.md#pinfoldnoleader"; !strings.Contains(manifest, link) {
		t.Errorf("the alerts do not have %s", link)
	}
	for line := range strings.Lines(files["checksums.txt"]) {
		if image, digest, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "# pinfold-"), ":0.1.0@"); ok && !strings.HasPrefix(image, "#") &&
			!strings.Contains(manifest, "image: "+host+"/team/pinfold-"+image+"@"+digest) {
			t.Errorf("the chart does not use the image %s@%s", image, digest)
		}
	}
}

func shell(t *testing.T, dir, commands string) string {
	t.Helper()
	cmd := exec.Command("sh", "-ec", commands)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", commands, err, out, stderr.String())
	}
	return string(out)
}

// TestRefused makes no release of what is not the tag, and leaves the one before.
func TestRefused(t *testing.T) {
	r := newRepository(t)
	out := t.TempDir()
	before := must.Get(r.release(out))(t)
	refused := func(want string, more ...string) {
		t.Helper()
		if _, err := r.release(out, more...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if entries := must.Get(os.ReadDir(out))(t); len(entries) != 1 {
			t.Errorf("%d directories are left", len(entries))
		}
	}
	refused("it must be like v0.1.0", "-version", "0.1")
	refused("\"x\" is not a flag", "x")
	refused("-url \"\"", "-url", "")
	refused("-url \"releases\"", "-url", "releases")
	refused("-docs \"\"", "-docs", "")
	refused("-docs \"docs/\"", "-docs", "docs/")
	refused("-push 127.0.0.1:1/team", "-push", "127.0.0.1:1/team")
	refused("-push \"HOST\"", "-push", "HOST")
	refused("-key /none: open /none", "-key", "/none")
	refused("-key env://NO_KEY: ", "-key", "env://NO_KEY")
	t.Setenv("COSIGN_PASSWORD", "wrong")
	refused("-key "+r.key, "-key", r.key)
	refused("the commit has the tags [\"v0.1.0\"], want only v0.2.0", "-version", "v0.2.0")
	r.write("new", "")
	refused("?? new")
	retag := func(version string) {
		r.commit()
		r.do("git", "tag", "--force", version)
	}
	retag("v0.2.0")
	refused("set both to 0.2.0 before the tag", "-version", "v0.2.0")
	values := filepath.Join(chartDir, "values.yaml")
	text := string(must.Get(os.ReadFile(filepath.Join(r.dir, values)))(t))
	r.write(values, strings.Replace(text, `digest: ""`, `digest: sha256:1`, 1))
	retag(version)
	refused("values.yaml has no repository pinfold-scheduler with an empty digest")
	r.write(values, text)
	r.write("CHANGELOG.md", "## Unreleased\n")
	retag(version)
	refused("CHANGELOG.md has no section \"## v0.1.0\"")
	for name, data := range before {
		if now, err := os.ReadFile(filepath.Join(out, version, name)); err != nil || string(now) != data {
			t.Errorf("%s of the release before has changed: %v", name, err)
		}
	}
}

// TestWorkflow checks that the workflow for GitHub runs nothing but targets of the Makefile, and
// actions of others only as they were at a commit.
func TestWorkflow(t *testing.T) {
	var workflow struct {
		Jobs map[string]struct{ Steps []struct{ Run, Uses string } }
	}
	must.Do(t, yaml.Unmarshal(must.Get(os.ReadFile("../../.github/workflows/release.yaml"))(t), &workflow))
	makefile := string(must.Get(os.ReadFile("../../Makefile"))(t))
	var targets []string
	for _, step := range workflow.Jobs["release"].Steps {
		if step.Run == "" {
			if !regexp.MustCompile(`^[a-z-]+/[a-z-]+@[0-9a-f]{40}$`).MatchString(step.Uses) {
				t.Errorf("a step uses %q: name the commit", step.Uses)
			}
			continue
		}
		target, ok := strings.CutPrefix(step.Run, "make ")
		if !ok || !strings.Contains(makefile, "\n"+target+": ") {
			t.Errorf("a step runs %q", step.Run)
		}
		targets = append(targets, target)
	}
	if !slices.Equal(targets, []string{"release", "publish"}) {
		t.Errorf("targets %q", targets)
	}
}
