package localcluster

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"time"
)

// Certificates are valid from a time in the past, in case the clock is set back, until long after
// the end of any local cluster.
const (
	validBefore = time.Hour
	validFor    = 365 * 24 * time.Hour
)

// keyPair is a certificate and its private key, both in PEM.
type keyPair struct{ certificate, key []byte }

// authority signs the certificates of one cluster.
type authority struct {
	keyPair
	parent  *x509.Certificate
	private crypto.Signer
	now     time.Time
}

func newAuthority(now time.Time) (*authority, error) {
	a := &authority{now: now}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "pinfold-local"},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	var err error
	if a.keyPair, err = a.issue(template); err != nil {
		return nil, err
	}
	block, _ := pem.Decode(a.certificate)
	if a.parent, err = x509.ParseCertificate(block.Bytes); err != nil {
		return nil, fmt.Errorf("parse the authority's certificate: %w", err)
	}
	return a, nil
}

// client issues a certificate that authenticates a user and their groups to the API server.
func (a *authority) client(user string, groups ...string) (keyPair, error) {
	return a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// server issues a certificate for a component that listens on loopback and on further addresses.
func (a *authority) server(component string, further ...net.IP) (keyPair, error) {
	return a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: component},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost"},
		IPAddresses: append([]net.IP{net.IPv4(127, 0, 0, 1)}, further...),
	})
}

// issue creates a key and signs its certificate. The first certificate is the authority's own and
// is self-signed.
func (a *authority) issue(template *x509.Certificate) (keyPair, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return keyPair{}, fmt.Errorf("create the key of %s: %w", template.Subject, err)
	}
	if a.parent == nil {
		a.parent, a.private = template, private
	}
	template.NotBefore, template.NotAfter = a.now.Add(-validBefore), a.now.Add(validFor)
	der, err := x509.CreateCertificate(rand.Reader, template, a.parent, &private.PublicKey, a.private)
	if err != nil {
		return keyPair{}, fmt.Errorf("sign the certificate of %s: %w", template.Subject, err)
	}
	key, _, err := encodeKeys(private)
	return keyPair{certificate: encodePEM("CERTIFICATE", der), key: key}, err
}

// newServiceAccountKey creates the key that signs the tokens of service accounts, and the public
// key that verifies them.
func newServiceAccountKey() (private, public []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("create the service account key: %w", err)
	}
	return encodeKeys(key)
}

// encodeKeys returns a private key and its public key in PEM.
func encodeKeys(key crypto.Signer) (private, public []byte, err error) {
	privateDER, err1 := x509.MarshalPKCS8PrivateKey(key)
	publicDER, err2 := x509.MarshalPKIXPublicKey(key.Public())
	if err := errors.Join(err1, err2); err != nil {
		return nil, nil, fmt.Errorf("encode a key: %w", err)
	}
	return encodePEM("PRIVATE KEY", privateDER), encodePEM("PUBLIC KEY", publicDER), nil
}

func encodePEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
