package localcluster

import (
	"crypto"
	"crypto/x509"
	"fmt"
	"net"
	"time"

	"sigs.k8s.io/kwok/pkg/kwokctl/pki"
)

// Certificates are valid from a time in the past, in case the clock is set back, until long after
// the end of any local cluster.
const (
	validBefore = time.Hour
	validFor    = 365 * 24 * time.Hour
)

// keyPair is a certificate and its private key, both in PEM.
type keyPair struct{ certificate, key []byte }

// authority signs the certificates of one cluster. Its key is in no file.
type authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
}

func newAuthority() (a authority, err error) {
	if a.certificate, a.key, err = pki.NewCertificateAuthority(certificateOf("pinfold-local")); err != nil {
		return a, fmt.Errorf("create the cluster's authority: %w", err)
	}
	return a, nil
}

func certificateOf(name string) pki.CertConfig {
	now := time.Now()
	return pki.CertConfig{CommonName: name, PublicKeyAlgorithm: x509.ECDSA, NotBefore: now.Add(-validBefore), NotAfter: now.Add(validFor)}
}

// pem returns the authority's certificate.
func (a authority) pem() []byte { return pki.EncodeCertToPEM(a.certificate) }

// client issues a certificate that authenticates a user and their groups to the API server.
func (a authority) client(user string, groups ...string) (keyPair, error) {
	config := certificateOf(user)
	config.Organization, config.Usages = groups, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.issue(config)
}

// server issues a certificate for a component that listens on loopback and on further addresses.
func (a authority) server(component string, further ...net.IP) (keyPair, error) {
	config := certificateOf(component)
	config.Usages = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	config.AltNames = pki.AltNames{DNSNames: []string{"localhost"}, IPs: append([]net.IP{net.IPv4(127, 0, 0, 1)}, further...)}
	return a.issue(config)
}

func (a authority) issue(config pki.CertConfig) (pair keyPair, err error) {
	certificate, key, err := pki.NewCertAndKey(a.certificate, a.key, config)
	if err == nil {
		pair.certificate = pki.EncodeCertToPEM(certificate)
		pair.key, err = pki.EncodePrivateKeyToPEM(key)
	}
	if err != nil {
		return keyPair{}, fmt.Errorf("issue the certificate of %s: %w", config.CommonName, err)
	}
	return pair, nil
}
