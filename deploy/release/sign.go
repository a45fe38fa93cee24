package main

import (
	"bytes"
	"context"
	"crypto"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/dsse"
	"github.com/sigstore/sigstore/pkg/signature/payload"
)

// signer signs as cosign does with a key. A nil *signer signs nothing.
type signer struct{ signature.Signer }

// loadSigner reads a private key, from a file or, as cosign does, from a variable of the environment
// ("env://NAME"); key is "" for none.
func loadSigner(key string) (*signer, error) {
	if key == "" {
		return nil, nil
	}
	var text []byte
	var err error
	if variable, ok := strings.CutPrefix(key, "env://"); ok {
		text = []byte(os.Getenv(variable))
	} else {
		text, err = os.ReadFile(key)
	}
	var private crypto.PrivateKey
	if err == nil {
		private, err = cryptoutils.UnmarshalPEMToPrivateKey(text, func(bool) ([]byte, error) { return []byte(os.Getenv("COSIGN_PASSWORD")), nil })
	}
	var s signature.Signer
	if err == nil {
		s, err = signature.LoadSigner(private, crypto.SHA256)
	}
	if err != nil {
		return nil, fmt.Errorf("-key %s: %w", key, err)
	}
	return &signer{s}, nil
}

// sign returns the signature of a text, in base64.
func (s *signer) sign(text []byte) (string, error) {
	raw, err := s.SignMessage(bytes.NewReader(text))
	if err != nil {
		return "", fmt.Errorf("sign: %w", err)
	}
	return base64.StdEncoding.EncodeToString(raw), nil
}

// Files about the others.
const (
	checksumsName  = "checksums.txt"
	provenanceName = "provenance.json"
)

// describe writes the checksums and the provenance, and with a key their signatures.
func (r *release) describe(ctx context.Context, artefacts []artefact, s *signer) error {
	sums, err := r.sums()
	if err != nil {
		return err
	}
	subjects := maps.Clone(sums)
	for _, a := range artefacts {
		subjects[a.name] = a.digest.Hex
	}
	provenance, err := r.provenance(ctx, subjects)
	if err != nil {
		return err
	}
	sums[provenanceName] = fmt.Sprintf("%x", sha256.Sum256(provenance))
	var text strings.Builder
	for _, file := range slices.Sorted(maps.Keys(sums)) {
		fmt.Fprintf(&text, "%s  %s\n", sums[file], file)
	}
	for _, a := range artefacts {
		fmt.Fprintf(&text, "# %s:%s@%s\n", a.name, a.tag, a.digest)
	}
	files := map[string][]byte{checksumsName: []byte(text.String()), provenanceName: provenance}
	if s != nil {
		if err := s.signFiles(files); err != nil {
			return err
		}
	}
	for name, data := range files {
		if err := os.WriteFile(r.path(name), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// signFiles adds the signatures of checksums and provenance, and the key that verifies them. The
// provenance is signed once more in the form that tools of in-toto and SLSA read, an envelope of DSSE.
func (s *signer) signFiles(files map[string][]byte) error {
	signed, err := s.sign(files[checksumsName])
	if err != nil {
		return err
	}
	envelope, err := dsse.WrapSigner(s, "application/vnd.in-toto+json").SignMessage(bytes.NewReader(files[provenanceName]))
	if err != nil {
		return fmt.Errorf("sign the provenance: %w", err)
	}
	key, err := s.PublicKey()
	if err != nil {
		return err
	}
	public, err := cryptoutils.MarshalPublicKeyToPEM(key)
	files[checksumsName+".sig"], files["provenance.intoto.jsonl"], files["cosign.pub"] = []byte(signed), append(envelope, '\n'), public
	return err
}

// provenance says from what and how the release was made: a statement of in-toto (version 1) with the
// predicate of SLSA (version 1). It has no times and no names of machines.
func (r *release) provenance(ctx context.Context, sums map[string]string) ([]byte, error) {
	toolchain, err := r.run(ctx, "go", "env", "GOVERSION")
	if err != nil {
		return nil, err
	}
	type digest map[string]string
	type resource struct {
		Name   string `json:"name,omitempty"`
		URI    string `json:"uri,omitempty"`
		Digest digest `json:"digest,omitempty"`
	}
	subjects := []resource{}
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		subjects = append(subjects, resource{Name: name, Digest: digest{"sha256": sums[name]}})
	}
	const module = "https://pinfold.dev/pinfold"
	return json.MarshalIndent(map[string]any{
		"_type":         "https://in-toto.io/Statement/v1",
		"subject":       subjects,
		"predicateType": "https://slsa.dev/provenance/v1",
		"predicate": map[string]any{
			"buildDefinition": map[string]any{
				"buildType":            module + "/make-release/v1",
				"externalParameters":   map[string]any{"version": r.version, "url": r.url, "platforms": strings.Split(r.platforms, ",")},
				"internalParameters":   map[string]any{"go": strings.TrimSpace(string(toolchain))},
				"resolvedDependencies": []resource{{URI: "git+" + module + "@refs/tags/" + r.version, Digest: digest{"gitCommit": r.commit}}},
			},
			"runDetails": map[string]any{"builder": map[string]any{"id": module + "/make-release"}},
		},
	}, "", "  ")
}

// pushAll pushes images and chart, and their signatures.
func (r *release) pushAll(ctx context.Context, artefacts []artefact, s *signer) error {
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	for _, a := range artefacts {
		repository, err := name.NewRepository(path.Join(r.push, a.name), name.StrictValidation)
		if err != nil {
			return err
		}
		tag := repository.Tag(a.tag)
		fmt.Fprintf(r.stderr, "pushing %s\n", tag)
		switch content := a.content.(type) {
		case v1.ImageIndex:
			err = remote.WriteIndex(tag, content, options...)
		case v1.Image:
			err = remote.Write(tag, content, options...)
		}
		if err == nil && s != nil {
			err = s.signIn(repository, a.digest, options)
		}
		if err != nil {
			return fmt.Errorf("push %s: %w", tag, err)
		}
	}
	return nil
}

// What cosign looks for (github.com/sigstore/cosign, specs/SIGNATURE_SPEC.md).
const (
	signatureType       types.MediaType = "application/vnd.dev.cosign.simplesigning.v1+json"
	signatureAnnotation string          = "dev.cosignproject.cosign/signature"
)

// signIn signs a digest, and stores the signature in the repository.
func (s *signer) signIn(repository name.Repository, digest v1.Hash, options []remote.Option) error {
	signed, err := payload.Cosign{Image: repository.Digest(digest.String())}.MarshalJSON()
	if err != nil {
		return err
	}
	text, err := s.sign(signed)
	if err != nil {
		return err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.Append(image, mutate.Addendum{Layer: static.NewLayer(signed, signatureType),
		Annotations: map[string]string{signatureAnnotation: text}})
	if err != nil {
		return err
	}
	return remote.Write(repository.Tag(digest.Algorithm+"-"+digest.Hex+".sig"), image, options...)
}
