// Package signingtest makes keys for tests of signed allocations.
package signingtest

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"

	"pinfold.dev/pinfold/test/must"
)

// KeyFiles writes a new key and its public key.
func KeyFiles(t *testing.T) (private, public string) {
	t.Helper()
	publicKey, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der := must.Get(x509.MarshalPKCS8PrivateKey(key))(t)
	publicDER := must.Get(x509.MarshalPKIXPublicKey(publicKey))(t)
	private, public = filepath.Join(t.TempDir(), "key"), filepath.Join(t.TempDir(), "pub")
	for path, block := range map[string]*pem.Block{private: {Type: "PRIVATE KEY", Bytes: der}, public: {Type: "PUBLIC KEY", Bytes: publicDER}} {
		must.Do(t, os.WriteFile(path, pem.EncodeToMemory(block), 0o600))
	}
	return private, public
}
