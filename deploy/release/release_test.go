package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/dsse"
	"github.com/sigstore/sigstore/pkg/signature/payload"

	"pinfold.dev/pinfold/test/checkout"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/need"
)

// small is a program that is built within a second, and links modules.
func small() []program {
	return []program{{"version", "pinfold.dev/pinfold/deploy/release", "a test", "65532:65532", []string{"pinfold.dev/pinfold/local/images/pause"}}}
}

// TestImages builds images of both platforms, pushes them, pulls them again and looks into them. A
// second build has the same digest.
func TestImages(t *testing.T) {
	need.This(t, "the go command")
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	repository := strings.TrimPrefix(server.URL, "http://") + "/team"
	dir := filepath.Join(t.TempDir(), "images")
	build := func(more ...string) string {
		t.Helper()
		var stdout, stderr bytes.Buffer
		if err := run(t.Context(), small(), append([]string{"images", "-o", dir, "-tag", "v1"}, more...), &stdout, &stderr); err != nil {
			t.Fatalf("%v\n%s", err, stderr.String())
		}
		return stdout.String()
	}
	pushed := build("-push", repository)
	_, digest, ok := strings.Cut(strings.TrimSpace(pushed), "@")
	if !ok || !strings.HasPrefix(pushed, repository+"/version:v1@sha256:") {
		t.Fatalf("it printed %q", pushed)
	}
	if again := build(); !strings.HasSuffix(again, "@"+digest+"\n") || !strings.HasPrefix(again, "pinfold.dev/version:v1@") {
		t.Errorf("the second build printed %q, the first %q", again, pushed)
	}
	tag := must.Get(name.NewTag(repository + "/version:v1"))(t)
	index := must.Get(remote.Index(tag))(t)
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	manifest := must.Get(index.IndexManifest())(t)
	var platforms []string
	for _, m := range manifest.Manifests {
		platforms = append(platforms, m.Platform.String())
		image := must.Get(index.Image(m.Digest))(t)
		inspect(t, image, m.Platform.Architecture)
	}
	if want := []string{"linux/amd64", "linux/arm64"}; !slices.Equal(platforms, want) {
		t.Errorf("platforms %q, want %q", platforms, want)
	}
}

// inspect checks the files and the configuration of an image.
func inspect(t *testing.T, image v1.Image, architecture string) {
	t.Helper()
	config := must.Get(image.ConfigFile())(t)
	if config.Architecture != architecture || config.Config.User != "65532:65532" || !slices.Equal(config.Config.Entrypoint, []string{"/version"}) {
		t.Errorf("configuration %+v", config)
	}
	files := map[string][]byte{}
	content := mutate.Extract(image)
	defer content.Close()
	for archive := tar.NewReader(content); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			files[header.Name], err = io.ReadAll(archive)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"version", "pause"} {
		if !bytes.HasPrefix(files[name], []byte("\x7fELF")) || len(files["usr/share/sbom/"+name+".cdx.json"]) == 0 {
			t.Errorf("the image has no program %s, or no list of its modules", name)
		}
	}
	for _, path := range []string{"pinfold.dev/pinfold/LICENSE", "std/LICENSE"} {
		if len(files[licencesDir+path]) == 0 {
			t.Errorf("the image has no %s", path)
		}
	}
	var list cdx.BOM
	must.Do(t, cdx.NewBOMDecoder(bytes.NewReader(files["usr/share/sbom/version.cdx.json"]), cdx.BOMFileFormatJSON).Decode(&list))
	for _, c := range *list.Components {
		found := slices.ContainsFunc(slices.Collect(maps.Keys(files)), func(name string) bool {
			return strings.HasPrefix(name, licencesDir+c.Name+"@"+c.Version+"/") || c.Name == goModule
		})
		if !found {
			t.Errorf("module %s %s is in the list, but its licence is not in the image", c.Name, c.Version)
		}
	}
	if !slices.ContainsFunc(*list.Components, func(c cdx.Component) bool { return c.Name == "github.com/google/go-containerregistry" }) {
		t.Errorf("the list lacks a module: %+v", *list.Components)
	}
}

// TestWrongUsage says what the errors contain.
func TestWrongUsage(t *testing.T) {
	checkErrors(t, map[string]string{
		"-platforms linux/riscv64": `platform "linux/riscv64": there are linux/amd64, linux/arm64, darwin/amd64 and darwin/arm64`,
		"-platforms darwin/arm64":  `images are for linux/amd64 and linux/arm64`,
		"-push Registry/Team":      `the registry "Registry/Team": give a registry and a path`,
		"-tag v1 all":              `what is "all"?`,
		"-fly":                     "flag provided but not defined: -fly",
	})
}

// TestUnusable has errors about what was built.
func TestUnusable(t *testing.T) {
	need.This(t, "the go command")
	full := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(full, "precious"), nil, 0o600))
	checkErrors(t, map[string]string{
		"-platforms linux/amd64 -tag a+b":               `-tag "a+b"`,
		"-platforms linux/amd64 -tag v1 -o " + full:     "is not empty and no OCI image layout",
		"-platforms linux/amd64 -push 127.0.0.1:1/team": "push 127.0.0.1:1/team/version",
	})
	if _, err := os.Stat(filepath.Join(full, "precious")); err != nil {
		t.Error(err)
	}
}

func checkErrors(t *testing.T, all map[string]string) {
	t.Helper()
	for args, says := range all {
		var out bytes.Buffer
		if !strings.Contains(args, "-o ") {
			args = "-o " + filepath.Join(t.TempDir(), "images") + " " + args
		}
		err := run(t.Context(), small(), append([]string{"images"}, strings.Fields(args)...), &out, &out)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", args, err, says)
		}
	}
}

// TestPrograms rejects programs for other platforms, and modules without a licence.
func TestPrograms(t *testing.T) {
	settings := func(goos, arch, cgo string) *debug.BuildInfo {
		return &debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "GOOS", Value: goos}, {Key: "GOARCH", Value: arch}, {Key: "CGO_ENABLED", Value: cgo}}}
	}
	if err := checkTarget(settings("linux", "arm64", "0"), platform{"linux", "arm64"}); err != nil {
		t.Error(err)
	}
	for says, info := range map[string]*debug.BuildInfo{
		"built for linux_amd64": settings("linux", "amd64", "0"), "built for darwin_arm64": settings("darwin", "arm64", "0"), "with cgo": settings("linux", "arm64", "1"),
	} {
		if err := checkTarget(info, platform{"linux", "arm64"}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "license.go"), []byte("package license"), 0o600))
	must.Do(t, os.MkdirAll(filepath.Join(dir, "third_party", "testdata"), 0o700))
	for _, name := range []string{"third_party/LICENSE", "third_party/testdata/LICENSE"} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte("MIT"), 0o600))
	}
	if _, err := textsIn(dir, "example.com/m@v1", false); err == nil || !strings.Contains(err.Error(), "module example.com/m@v1 has no licence file") {
		t.Errorf("a module without a licence: %v", err)
	}
	if all, err := textsIn(dir, "example.com/m@v1", true); err != nil || len(all) != 1 || all[0].path != "example.com/m@v1/third_party/LICENSE" {
		t.Errorf("the licence of a part: %+v, %v", all, err)
	}
	for version, want := range map[string]string{"v1.2.3": "v1.2.3", "(devel)": "devel", "v0.0.0-20260102150405-0123456789ab+dirty": "v0.0.0-20260102150405-0123456789ab-dirty"} {
		if got := tagOf(version); got != want {
			t.Errorf("tag of %s is %s, want %s", version, got, want)
		}
	}
}

// published is a release that a test makes: of a copy of this repository with a commit and a tag of its own.
type published struct {
	*testing.T
	source, key, registry string
}

const version = "v0.1.0"

func publish(t *testing.T) published {
	t.Helper()
	need.This(t, "the go command")
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	p := published{t, checkout.Copy(t, version), filepath.Join(t.TempDir(), "key"), strings.TrimPrefix(server.URL, "http://") + "/team"}
	must.Do(t, os.WriteFile(p.key, keyFile(t, must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)), 0o600))
	t.Chdir(p.source)
	return p
}

func keyFile(t *testing.T, key any) []byte {
	t.Helper()
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: must.Get(x509.MarshalPKCS8PrivateKey(key))(t)})
}

// shell executes commands in the copy.
func (p published) shell(script string) {
	p.Helper()
	checkout.Shell(p, p.source, script)
}

// make makes the release of two programs that are built fast.
func (p published) make(args ...string) (digests string, err error) {
	p.Helper()
	programs := []program{
		{"pinfold-scheduler", "pinfold.dev/pinfold/local/images/pause", "a test", "0:0", nil},
		{"pinfold-agent", "pinfold.dev/pinfold/local/images/pause", "a test", "0:0", nil},
	}
	var stdout, stderr bytes.Buffer
	err = run(p.Context(), programs, append([]string{"all", "-version", version, "-registry", p.registry, "-url", "https://example.com/v0.1.0/", "-key", p.key,
		"-platforms", runtime.GOOS + "/" + runtime.GOARCH}, args...), &stdout, &stderr)
	return stdout.String(), err
}

// TestRelease makes a release twice and compares all bytes. It checks the signatures with the public key, what
// is in the registry, and what the chart and the manifest for krew name.
func TestRelease(t *testing.T) {
	p := publish(t)
	dirs := []string{filepath.Join(t.TempDir(), "one"), filepath.Join(t.TempDir(), "two")}
	digests := must.Get(p.make("-o", dirs[0], "-push"))(t)
	if again := must.Get(p.make("-o", dirs[1]))(t); again != digests {
		t.Errorf("the digests are\n%s, and then\n%s", digests, again)
	}
	p.shell("diff -r " + dirs[0] + " " + dirs[1])
	read := func(name string) []byte { return must.Get(os.ReadFile(filepath.Join(dirs[0], name)))(t) }
	verifier := must.Get(signature.LoadVerifier(must.Get(cryptoutils.UnmarshalPEMToPublicKey(read("pinfold.pub")))(t), crypto.SHA256))(t)
	verify := func(what string, base64ed, message []byte) {
		t.Helper()
		raw := must.Get(base64.StdEncoding.DecodeString(strings.TrimSpace(string(base64ed))))(t)
		if err := verifier.VerifySignature(bytes.NewReader(raw), bytes.NewReader(message)); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	verify("SHA256SUMS", read("SHA256SUMS.sig"), read("SHA256SUMS"))
	p.shell("cd " + dirs[0] + " && sha256sum --strict --quiet --check SHA256SUMS")
	if err := dsse.WrapVerifier(verifier).VerifySignature(bytes.NewReader(read("provenance.intoto.jsonl")), nil); err != nil {
		t.Errorf("provenance: %v", err)
	}
	if got := string(read("digests.txt")); got != digests || strings.Count(got, "\n") != 3 {
		t.Errorf("digests.txt is\n%s, and printed was\n%s", got, digests)
	}
	chart := unpacked(t, read("pinfold-0.1.0.tgz"))
	values := string(chart["pinfold/values.yaml"])
	for line := range strings.Lines(digests) {
		tag, digest, _ := strings.Cut(strings.TrimSpace(line), "@")
		reference := must.Get(name.NewTag(tag))(t)
		if there := must.Get(remote.Head(reference))(t); there.Digest.String() != digest {
			t.Errorf("%s is %s in the registry, want %s", tag, there.Digest, digest)
		}
		if !strings.Contains(tag, "/charts/") && !strings.Contains(string(chart["pinfold/Chart.yaml"]), digest+"\n") {
			t.Errorf("the chart does not name %s", line)
		}
		sig := must.Get(remote.Image(reference.Context().Tag(strings.Replace(digest, ":", "-", 1) + ".sig")))(t)
		layer := must.Get(sig.Layers())(t)[0]
		message := must.Get(io.ReadAll(must.Get(layer.Uncompressed())(t)))(t)
		var signed payload.Cosign
		if err := json.Unmarshal(message, &signed); err != nil || signed.Image.DigestStr() != digest {
			t.Errorf("the signature of %s is of %v (%v)", tag, signed.Image, err)
		}
		verify(tag, []byte(must.Get(sig.Manifest())(t).Layers[0].Annotations["dev.cosignproject.cosign/signature"]), message)
	}
	if !strings.Contains(values, "\n  registry: "+p.registry+"\n") || !strings.Contains(string(chart["pinfold/Chart.yaml"]), "\nversion: 0.1.0\nappVersion: 0.1.0\n") {
		t.Errorf("the chart has the values\n%s", values[:200])
	}
	on := runtime.GOOS + "_" + runtime.GOARCH
	files := unpacked(t, read("pinfold_"+on+".tar.gz"))
	for _, want := range []string{"pinfold", "kubectl_complete-pinfold", "completion/bash/pinfold", "man/man1/pinfold-why.1", licencesDir + "pinfold.dev/pinfold/LICENSE", "usr/share/sbom/pinfold.cdx.json"} {
		if len(files[want]) == 0 {
			t.Errorf("the archive has no %s", want)
		}
	}
	if want := "uri: https://example.com/v0.1.0/pinfold_" + on + ".tar.gz\n    sha256: " + checksum(read("pinfold_"+on+".tar.gz")); !strings.Contains(string(read("pinfold.yaml")), want) {
		t.Errorf("krew's manifest has no %s:\n%s", want, read("pinfold.yaml"))
	}
}

// unpacked returns the files of a compressed archive.
func unpacked(t *testing.T, data []byte) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for archive := tar.NewReader(must.Get(gzip.NewReader(bytes.NewReader(data)))(t)); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		must.Do(t, err)
		files[header.Name] = must.Get(io.ReadAll(archive))(t)
	}
}

// TestNoRelease refuses what would make a wrong release, before it builds anything, and leaves other files alone.
func TestNoRelease(t *testing.T) {
	p := publish(t)
	other, edwards, locked := filepath.Join(t.TempDir(), "other"), filepath.Join(t.TempDir(), "edwards"), filepath.Join(t.TempDir(), "locked")
	must.Do(t, os.WriteFile(edwards, keyFile(t, ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))), 0o600))
	private, _, err := cryptoutils.GeneratePEMEncodedECDSAKeyPair(elliptic.P256(), cryptoutils.StaticPasswordFunc([]byte("secret")))
	must.Do(t, errors.Join(err, os.WriteFile(locked, private, 0o600)))
	must.Do(t, os.Mkdir(other, 0o755))
	must.Do(t, os.WriteFile(filepath.Join(other, "precious"), nil, 0o600))
	for _, c := range []struct{ says, before, args string }{
		{"the version \"0.1.0\" is not like v0.1.0", "", "-version 0.1.0"},
		{"the registry \"\": give a registry", "", "-registry="},
		{"the URL \"releases\" is not one of a directory", "", "-url releases"},
		{"a release is signed: give KEY", "", "-key="},
		{"no such file or directory", "", "-key /nowhere"},
		{"use one of ECDSA P-256", "", "-key " + edwards},
		{"set COSIGN_PASSWORD", "", "-key " + locked},
		{"there is no tag v0.2.0: git tag v0.2.0", "", "-version v0.2.0"},
		{"CHANGELOG.md has no section \"## v0.2.0\"", "git tag v0.2.0", "-version v0.2.0"},
		{"CHANGELOG.md has no section \"## v0.1.10\"", "git tag v0.1.10", "-version v0.1.10"},
		{"is not empty and no release", "", "-o " + other},
		{"these files are not in it", "touch new", ""},
		{"and this is", "rm new; git -c user.name=x -c user.email=x@example.com commit -q --allow-empty -m y", ""},
	} {
		if c.before != "" {
			p.shell(c.before)
		}
		out := filepath.Join(t.TempDir(), "out")
		if _, err := p.make(append([]string{"-o", out}, strings.Fields(c.args)...)...); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %s", c.args, err, c.says)
		}
		if _, err := os.Stat(out); err == nil {
			t.Errorf("%s: there is %s", c.args, out)
		}
	}
}
