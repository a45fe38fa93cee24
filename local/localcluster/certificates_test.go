package localcluster

import (
	"crypto/tls"
	"crypto/x509"
	"slices"
	"testing"
	"time"

	"pinfold.dev/pinfold/test/must"
)

func testAuthority(t *testing.T) authority {
	t.Helper()
	return must.Get(newAuthority())(t)
}

// TestCertificates checks for what a peer that trusts one authority accepts certificates.
func TestCertificates(t *testing.T) {
	ca, now := testAuthority(t), time.Now()
	server := must.Get(ca.server("kube-apiserver"))(t)
	client := must.Get(ca.client("alice", "admins", "people"))(t)
	for _, test := range []struct {
		what  string
		ca    authority
		pair  keyPair
		usage x509.ExtKeyUsage
		host  string
		at    time.Time
		ok    bool
	}{
		{"a client", ca, client, x509.ExtKeyUsageClientAuth, "", now, true},
		{"a server by address", ca, server, x509.ExtKeyUsageServerAuth, "127.0.0.1", now, true},
		{"a clock that is a little slow", ca, client, x509.ExtKeyUsageClientAuth, "", now.Add(-time.Minute), true},
		{"a client of another cluster", testAuthority(t), client, x509.ExtKeyUsageClientAuth, "", now, false},
		{"a server elsewhere", ca, server, x509.ExtKeyUsageServerAuth, "10.0.0.1", now, false},
		{"a client as a server", ca, client, x509.ExtKeyUsageServerAuth, "", now, false},
		{"a server as a client", ca, server, x509.ExtKeyUsageClientAuth, "", now, false},
	} {
		roots, pair := x509.NewCertPool(), must.Get(tls.X509KeyPair(test.pair.certificate, test.pair.key))(t)
		roots.AppendCertsFromPEM(test.ca.pem())
		_, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{test.usage}, DNSName: test.host, CurrentTime: test.at})
		if (err == nil) != test.ok {
			t.Errorf("%s: accepted: %v, want %v (%v)", test.what, err == nil, test.ok, err)
		}
	}
	leaf := must.Get(tls.X509KeyPair(client.certificate, client.key))(t).Leaf
	if leaf.IsCA || leaf.Subject.CommonName != "alice" || !slices.Equal(leaf.Subject.Organization, []string{"admins", "people"}) {
		t.Errorf("the client is %v, an authority: %v", leaf.Subject, leaf.IsCA)
	}
}
