package localcluster

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// Certificates are valid from a little in the past, in case a clock is
// stepped, to long after any local cluster has ended.
const (
	validBefore = time.Hour
	validFor    = 365 * 24 * time.Hour
)

// keyPair is a certificate and its key, both in PEM.
type keyPair struct {
	certificate []byte
	key         []byte
}

// authority signs the certificates of one cluster.
type authority struct {
	keyPair
	parent  *x509.Certificate
	private *ecdsa.PrivateKey
	now     time.Time
}

func newAuthority(now time.Time) (*authority, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the authority's key: %w", err)
	}
	a := &authority{private: private, now: now}
	template, err := a.template(pkix.Name{CommonName: "pinfold-local"})
	if err != nil {
		return nil, err
	}
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	a.parent = template // signed by itself
	if a.keyPair, err = a.sign(template, private); err != nil {
		return nil, err
	}
	block, _ := pem.Decode(a.certificate)
	if a.parent, err = x509.ParseCertificate(block.Bytes); err != nil {
		return nil, fmt.Errorf("read back the authority's certificate: %w", err)
	}
	return a, nil
}

// client issues a certificate that authenticates a user and their groups to
// the API server.
func (a *authority) client(user string, groups ...string) (keyPair, error) {
	template, err := a.template(pkix.Name{CommonName: user, Organization: groups})
	if err != nil {
		return keyPair{}, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.issue(template)
}

// server issues a certificate for a component that listens on loopback, and on
// further addresses.
func (a *authority) server(component string, further ...net.IP) (keyPair, error) {
	template, err := a.template(pkix.Name{CommonName: component})
	if err != nil {
		return keyPair{}, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	template.DNSNames = []string{"localhost"}
	template.IPAddresses = append([]net.IP{net.IPv4(127, 0, 0, 1)}, further...)
	return a.issue(template)
}

func (a *authority) template(subject pkix.Name) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("draw a serial number: %w", err)
	}
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      subject,
		NotBefore:    a.now.Add(-validBefore),
		NotAfter:     a.now.Add(validFor),
	}, nil
}

func (a *authority) issue(template *x509.Certificate) (keyPair, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return keyPair{}, fmt.Errorf("make the key of %s: %w", template.Subject, err)
	}
	return a.sign(template, private)
}

func (a *authority) sign(template *x509.Certificate, private *ecdsa.PrivateKey) (keyPair, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, a.parent, &private.PublicKey, a.private)
	if err != nil {
		return keyPair{}, fmt.Errorf("sign the certificate of %s: %w", template.Subject, err)
	}
	key, err := encodeKey(private)
	if err != nil {
		return keyPair{}, err
	}
	return keyPair{certificate: encodePEM("CERTIFICATE", der), key: key}, nil
}

// newServiceAccountKey makes the key pair that signs and checks the tokens of
// service accounts: the private key and the public key.
func newServiceAccountKey() (private, public []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make the service account key: %w", err)
	}
	if private, err = encodeKey(key); err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return nil, nil, fmt.Errorf("encode the service account key: %w", err)
	}
	return private, encodePEM("PUBLIC KEY", der), nil
}

// newAllocationKey makes the key pair by which the scheduler signs allocations and the
// agent verifies them.
func newAllocationKey() (private, public []byte, err error) {
	publicKey, privateKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make the key for allocations: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(privateKey)
	if err != nil {
		return nil, nil, fmt.Errorf("encode the key for allocations: %w", err)
	}
	publicDER, err := x509.MarshalPKIXPublicKey(publicKey)
	if err != nil {
		return nil, nil, fmt.Errorf("encode the key for allocations: %w", err)
	}
	return encodePEM("PRIVATE KEY", der), encodePEM("PUBLIC KEY", publicDER), nil
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode a key: %w", err)
	}
	return encodePEM("EC PRIVATE KEY", der), nil
}

func encodePEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
