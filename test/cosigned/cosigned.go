// Package cosigned checks signatures in registries as "cosign verify" does:
//
//	err := cosigned.Check(repository, digest, publicKey)
package cosigned

import (
	"bytes"
	"crypto"
	"encoding/base64"
	"fmt"
	"io"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
)

// Check checks the signature of what has a digest in a repository, with a public key in PEM.
func Check(repository name.Repository, digest v1.Hash, publicKey []byte) error {
	signed, raw, err := signatureOf(repository, digest)
	if err != nil {
		return fmt.Errorf("%s@%s: read its signature: %w", repository, digest, err)
	}
	key, err := cryptoutils.UnmarshalPEMToPublicKey(publicKey)
	if err != nil {
		return fmt.Errorf("read the public key: %w", err)
	}
	verifier, err := signature.LoadVerifier(key, crypto.SHA256)
	if err != nil {
		return fmt.Errorf("read the public key: %w", err)
	}
	if err := verifier.VerifySignature(bytes.NewReader(raw), bytes.NewReader(signed)); err != nil {
		return fmt.Errorf("%s@%s: %w", repository, digest, err)
	}
	if !bytes.Contains(signed, []byte(`"`+digest.String()+`"`)) {
		return fmt.Errorf("%s@%s: its signature is about something else: %s", repository, digest, signed)
	}
	return nil
}

// signatureOf returns what is signed, and the signature.
func signatureOf(repository name.Repository, digest v1.Hash) (signed, raw []byte, err error) {
	image, err := remote.Image(repository.Tag("sha256-" + digest.Hex + ".sig"))
	if err != nil {
		return nil, nil, err
	}
	manifest, err := image.Manifest()
	if err != nil {
		return nil, nil, err
	}
	layer, err := image.LayerByDigest(manifest.Layers[0].Digest)
	if err != nil {
		return nil, nil, err
	}
	text, err := layer.Compressed()
	if err != nil {
		return nil, nil, err
	}
	defer text.Close()
	if signed, err = io.ReadAll(text); err != nil {
		return nil, nil, err
	}
	raw, err = base64.StdEncoding.DecodeString(manifest.Layers[0].Annotations["dev.cosignproject.cosign/signature"])
	return signed, raw, err
}
