package api

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
)

// Whoever may write annotations can write an allocation. A scheduler with a key signs
// its own, so that others do not count, wherever they come from.
//
// Signed are the bytes of the annotation, without the signature, after a prefix and the
// pod's UID: an allocation that was copied from another pod does not verify, nor does a
// signature that the same key made for another purpose. The signature is the last field,
// so that fields which this version does not know are signed too.
const (
	signaturePrefix = "pinfold.dev/cpu-allocation\x00"
	signatureField  = `,"signature":"`
	signatureEnd    = `"}`
)

// ErrNotSigned is wrapped by the error about an allocation without a signature, where
// signatures are required.
var ErrNotSigned = errors.New("it has no signature: the scheduler of this cluster did not write it")

// ErrSignature is wrapped by the error about an allocation whose signature does not verify.
var ErrSignature = errors.New("its signature does not verify: it was edited, copied from another pod, or signed with a key that is not known here")

// Sign returns the text of the annotation for the pod with this UID.
func (a Allocation) Sign(uid types.UID, key ed25519.PrivateKey) string {
	a.Signature = ""
	text := a.Encode()
	signature := base64.StdEncoding.EncodeToString(ed25519.Sign(key, signedMessage(uid, text)))
	return strings.TrimSuffix(text, "}") + signatureField + signature + signatureEnd
}

func signedMessage(uid types.UID, text string) []byte {
	return []byte(signaturePrefix + string(uid) + "\x00" + text)
}

// verifiedTexts bounds how many answers [Keys] remembers: with some 300 bytes each, those
// about all pods of a large cluster take a few megabytes.
const verifiedTexts = 1 << 15

// Keys are the public keys of the schedulers whose allocations count. A nil *Keys believes
// every allocation. It may be used by several goroutines.
type Keys struct {
	keys []ed25519.PublicKey
	// verified remembers answers, by signedText: a signature takes some 60 us to verify, and
	// the same allocations are read again and again.
	verified *lru.Cache
}

type signedText struct {
	uid  types.UID
	text string
}

// NewKeys returns Keys that believe what one of these keys has signed.
func NewKeys(keys ...ed25519.PublicKey) *Keys {
	return &Keys{keys: keys, verified: lru.New(verifiedTexts)}
}

// MarkVerified saves the verification of a text that the caller has signed itself.
func (k *Keys) MarkVerified(uid types.UID, text string) {
	if k != nil {
		k.verified.Add(signedText{uid, text}, true)
	}
}

// verify checks the signature of an annotation's text.
func (k *Keys) verify(uid types.UID, text string) error {
	if k == nil {
		return nil
	}
	at := strings.LastIndex(text, signatureField)
	if at < 0 || !strings.HasSuffix(text, signatureEnd) {
		return ErrNotSigned
	}
	known, ok := k.verified.Get(signedText{uid, text})
	if !ok {
		known = k.isSigned(uid, text[:at]+"}", text[at+len(signatureField):len(text)-len(signatureEnd)])
		k.verified.Add(signedText{uid, text}, known)
	}
	if known != true {
		return ErrSignature
	}
	return nil
}

func (k *Keys) isSigned(uid types.UID, text, signature string) bool {
	raw, err := base64.StdEncoding.Strict().DecodeString(signature)
	if err != nil {
		return false
	}
	message := signedMessage(uid, text)
	for _, key := range k.keys {
		if ed25519.Verify(key, message, raw) {
			return true
		}
	}
	return false
}

// ParsePrivateKey reads an Ed25519 key in PEM (PKCS #8), as made by
// "openssl genpkey -algorithm ed25519".
func ParsePrivateKey(text []byte) (ed25519.PrivateKey, error) {
	block, rest := pem.Decode(text)
	if block == nil || block.Type != "PRIVATE KEY" {
		return nil, errors.New(`it holds no private key in PEM ("BEGIN PRIVATE KEY"): make one with "openssl genpkey -algorithm ed25519"`)
	}
	if strings.TrimSpace(string(rest)) != "" {
		return nil, errors.New("there is something after the private key: it must hold one key and nothing else")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read the private key: %w", err)
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf(`the private key is a %T, not Ed25519: make one with "openssl genpkey -algorithm ed25519"`, parsed)
	}
	return key, nil
}

// ParsePublicKeys reads Ed25519 keys in PEM, one after the other, as made by
// "openssl pkey -pubout".
func ParsePublicKeys(text []byte) ([]ed25519.PublicKey, error) {
	var keys []ed25519.PublicKey
	for rest := text; strings.TrimSpace(string(rest)) != ""; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return nil, fmt.Errorf("after %d public keys there is something that is not PEM", len(keys))
		}
		if block.Type != "PUBLIC KEY" {
			return nil, fmt.Errorf(`it holds a %q; only public keys belong there: make them with "openssl pkey -pubout"`, block.Type)
		}
		parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("read public key %d: %w", len(keys)+1, err)
		}
		key, ok := parsed.(ed25519.PublicKey)
		if !ok {
			return nil, fmt.Errorf("public key %d is a %T, not Ed25519", len(keys)+1, parsed)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, errors.New(`it holds no public key in PEM ("BEGIN PUBLIC KEY")`)
	}
	return keys, nil
}
