package main

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/dsse"
	"github.com/sigstore/sigstore/pkg/signature/payload"

	"pinfold.dev/pinfold/internal/ociimage"
)

// passwordEnv is the environment variable with the password of an encrypted key, as cosign has it.
const passwordEnv = "COSIGN_PASSWORD"

// signer signs with a private key, without random numbers: the same message has the same signature
// (RFC 6979 for ECDSA).
type signer struct {
	key    crypto.Signer
	public []byte // the public key, in PEM
}

// PublicKey returns the public key.
func (s signer) PublicKey(...signature.PublicKeyOption) (crypto.PublicKey, error) {
	return s.key.Public(), nil
}

// SignMessage returns the signature of a message's SHA-256.
func (s signer) SignMessage(message io.Reader, _ ...signature.SignOption) ([]byte, error) {
	data, err := io.ReadAll(message)
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256(data)
	return s.key.Sign(nil, digest[:], crypto.SHA256)
}

// loadSigner reads a private key: one that cosign made, or another one of RSA or ECDSA in PEM.
func loadSigner(file string) (signer, error) {
	var s signer
	data, err := os.ReadFile(file)
	if err != nil {
		return s, err
	}
	key, err := cryptoutils.UnmarshalPEMToPrivateKey(data, func(bool) ([]byte, error) {
		password, ok := os.LookupEnv(passwordEnv)
		if !ok {
			return nil, fmt.Errorf("it is encrypted: set %s", passwordEnv)
		}
		return []byte(password), nil
	})
	if err != nil {
		return s, fmt.Errorf("private key %s: %w", file, err)
	}
	switch key := key.(type) {
	case *ecdsa.PrivateKey:
		s.key = key
	case *rsa.PrivateKey:
		s.key = key
	default:
		return s, fmt.Errorf("private key %s: openssl cannot verify the signatures of %T by a digest: use one of ECDSA P-256, such as that of 'cosign generate-key-pair'", file, key)
	}
	s.public, err = cryptoutils.MarshalPublicKeyToPEM(s.key.Public())
	return s, err
}

// sign returns the signature of a message, in Base64 as cosign has it.
func (s signer) sign(message []byte) (string, error) {
	of, err := s.SignMessage(bytes.NewReader(message))
	return base64.StdEncoding.EncodeToString(of), err
}

// signatureOf returns the signature of an artefact as cosign and the policies of admission that know it find it
// in a registry (cosign, specs/SIGNATURE_SPEC.md).
func (s signer) signatureOf(one artefact) (artefact, error) {
	message, err := json.Marshal(payload.Cosign{Image: one.tag.Context().Digest(one.digest.String())})
	if err != nil {
		return artefact{}, err
	}
	text, err := s.sign(message)
	if err != nil {
		return artefact{}, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.Append(base, mutate.Addendum{
		Layer:       static.NewLayer(message, "application/vnd.dev.cosign.simplesigning.v1+json"),
		Annotations: map[string]string{"dev.cosignproject.cosign/signature": text},
	})
	if err != nil {
		return artefact{}, err
	}
	return newArtefact(one.tag.Context().Tag(strings.Replace(one.digest.String(), ":", "-", 1)+".sig"), image)
}

// source is what a release is made of.
type source struct {
	commit, goVersion string
}

// provenance returns which source gave which files, signed (SLSA provenance 1.0 in an envelope of
// DSSE). It has no times, which would differ between builds.
func (s signer) provenance(o options, from source, files []ociimage.File, artefacts []artefact) ([]byte, error) {
	type digests map[string]string
	type resource struct {
		Name   string  `json:"name,omitempty"`
		URI    string  `json:"uri,omitempty"`
		Digest digests `json:"digest,omitempty"`
	}
	var subjects []resource
	for _, file := range files {
		subjects = append(subjects, resource{Name: file.Name, Digest: digests{"sha256": checksum(file.Data)}})
	}
	for _, one := range artefacts {
		subjects = append(subjects, resource{Name: one.tag.Context().Name(), Digest: digests{one.digest.Algorithm: one.digest.Hex}})
	}
	statement, err := json.Marshal(map[string]any{
		"_type": "https://in-toto.io/Statement/v1", "subject": subjects, "predicateType": "https://slsa.dev/provenance/v1",
		"predicate": map[string]any{
			"buildDefinition": map[string]any{
				"buildType":          homepage + "/deploy/release",
				"externalParameters": map[string]any{"version": o.version, "registry": o.registry, "url": o.url, "ldflags": o.ldflags},
				"resolvedDependencies": []resource{
					{URI: "git+" + homepage + "@refs/tags/" + o.version, Digest: digests{"gitCommit": from.commit}},
					{URI: "pkg:golang/" + goModule + "@" + from.goVersion},
				},
			},
			"runDetails": map[string]any{"builder": map[string]any{"id": homepage + "/make-release"}},
		},
	})
	if err != nil {
		return nil, err
	}
	return dsse.WrapSigner(s, "application/vnd.in-toto+json").SignMessage(bytes.NewReader(statement))
}

func checksum(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data)) }
