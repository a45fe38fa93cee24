package localcluster

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"slices"
	"testing"
	"time"

	"k8s.io/client-go/util/keyutil"

	"pinfold.dev/pinfold/test/must"
)

func testAuthority(t *testing.T) *authority {
	t.Helper()
	return must.Get(newAuthority(time.Now()))(t)
}

func parsed(t *testing.T, pair keyPair) *x509.Certificate {
	t.Helper()
	if _, err := tls.X509KeyPair(pair.certificate, pair.key); err != nil {
		t.Fatalf("certificate and key do not belong together: %v", err)
	}
	block, _ := pem.Decode(pair.certificate)
	return must.Get(x509.ParseCertificate(block.Bytes))(t)
}

// verify verifies a certificate as a peer that trusts one authority.
func verify(ca *authority, certificate *x509.Certificate, usage x509.ExtKeyUsage, host string, at time.Time) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.certificate)
	_, err := certificate.Verify(x509.VerifyOptions{
		Roots: roots, KeyUsages: []x509.ExtKeyUsage{usage}, DNSName: host, CurrentTime: at,
	})
	return err
}

func TestCertificates(t *testing.T) {
	ca, other := testAuthority(t), testAuthority(t)
	serverPair := must.Get(ca.server("kube-apiserver"))(t)
	clientPair := must.Get(ca.client("alice", "admins", "people"))(t)
	server, client := parsed(t, serverPair), parsed(t, clientPair)
	now := time.Now()
	for _, test := range []struct {
		what        string
		ca          *authority
		certificate *x509.Certificate
		usage       x509.ExtKeyUsage
		host        string
		at          time.Time
		ok          bool
	}{
		{"a client", ca, client, x509.ExtKeyUsageClientAuth, "", now, true},
		{"a server by address", ca, server, x509.ExtKeyUsageServerAuth, "127.0.0.1", now, true},
		{"a server by name", ca, server, x509.ExtKeyUsageServerAuth, "localhost", now, true},
		{"a clock that is a little slow", ca, client, x509.ExtKeyUsageClientAuth, "", now.Add(-time.Minute), true},
		{"a client of another cluster", other, client, x509.ExtKeyUsageClientAuth, "", now, false},
		{"a server of another cluster", other, server, x509.ExtKeyUsageServerAuth, "127.0.0.1", now, false},
		{"a server elsewhere", ca, server, x509.ExtKeyUsageServerAuth, "10.0.0.1", now, false},
		{"a client as a server", ca, client, x509.ExtKeyUsageServerAuth, "", now, false},
		{"a server as a client", ca, server, x509.ExtKeyUsageClientAuth, "", now, false},
		{"two years later", ca, client, x509.ExtKeyUsageClientAuth, "", now.AddDate(2, 0, 0), false},
	} {
		if err := verify(test.ca, test.certificate, test.usage, test.host, test.at); (err == nil) != test.ok {
			t.Errorf("%s: accepted: %v, want %v (%v)", test.what, err == nil, test.ok, err)
		}
	}
	if name := client.Subject; name.CommonName != "alice" || !slices.Equal(name.Organization, []string{"admins", "people"}) {
		t.Errorf("the client is %v", name)
	}
	if client.IsCA || client.KeyUsage&x509.KeyUsageCertSign != 0 {
		t.Error("a client could sign certificates")
	}
}

func TestServiceAccountKeysMatch(t *testing.T) {
	private, public, err := newServiceAccountKey()
	if err != nil {
		t.Fatal(err)
	}
	key := must.Get(keyutil.ParsePrivateKeyPEM(private))(t)
	publics := must.Get(keyutil.ParsePublicKeysPEM(public))(t)
	signer, ok := key.(*ecdsa.PrivateKey)
	if !ok || len(publics) != 1 || !signer.PublicKey.Equal(publics[0]) {
		t.Errorf("private key %T does not belong to public keys %v", key, publics)
	}
}
