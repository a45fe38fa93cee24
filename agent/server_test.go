package agent

import (
	"bytes"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	certutil "k8s.io/client-go/util/cert"

	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/test/must"
)

// TestCertificateFiles replaces the files of the certificate one after the other, as an
// administrator does.
func TestCertificateFiles(t *testing.T) {
	w := newWorld(t)
	w.root, w.listen = newTree(t).root, "127.0.0.1:0"
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	w.more = func(o *Options) {
		o.Secure, o.FilesEvery = &Secure{CertFile: certFile, KeyFile: keyFile, Reviews: w.client}, 10*time.Millisecond
	}
	if err := Run(t.Context(), w.options()); err == nil || !strings.Contains(err.Error(), "read the certificate for metrics: open "+certFile) {
		t.Errorf("without files: %v", err)
	}
	first, firstKey := newCertificate(t)
	second, secondKey := newCertificate(t)
	write := func(file string, text []byte) { must.Do(t, os.WriteFile(file, text, 0o600)) }
	write(certFile, bytes.TrimSpace(first))
	write(keyFile, firstKey)
	w.start()
	serves := func(want []byte) error {
		_, address, ok := strings.Cut(w.log.String(), "metrics=")
		if !ok {
			return errors.New("the log does not contain the address of the metrics")
		}
		address, _, _ = strings.Cut(address, "\n")
		conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			return err
		}
		defer conn.Close()
		block, _ := pem.Decode(want)
		if !bytes.Equal(conn.ConnectionState().PeerCertificates[0].Raw, block.Bytes) {
			return errors.New("another certificate is served")
		}
		return nil
	}
	w.eventually(func() error { return serves(first) })
	write(certFile, second) // with the key of the first one
	w.eventually(func() error {
		if c := w.condition(); c.Reason != control.FileRefused {
			return fmt.Errorf("condition %+v", c)
		}
		return serves(first)
	})
	write(keyFile, secondKey)
	w.eventually(func() error { return errors.Join(serves(second), w.ready()) })
	must.Do(t, os.Remove(certFile))
	w.eventually(func() error {
		if c := w.condition(); c.Reason != control.FileRefused {
			return fmt.Errorf("condition %+v", c)
		}
		return serves(second)
	})
}

// newCertificate returns a certificate and its key as PEM.
func newCertificate(t *testing.T) (cert, key []byte) {
	t.Helper()
	cert, key, err := certutil.GenerateSelfSignedCertKey("node", nil, nil)
	must.Do(t, err)
	return cert, key
}

// TestSelfSigned checks that a server without files has a certificate, and takes none of clients.
func TestSelfSigned(t *testing.T) {
	config := must.Get((&Options{Secure: &Secure{}}).tlsConfig())(t)
	if len(config.Certificates) != 1 || config.ClientAuth != tls.NoClientCert || config.MinVersion < tls.VersionTLS12 {
		t.Errorf("%d certificates, client certificates %v, version %#x", len(config.Certificates), config.ClientAuth, config.MinVersion)
	}
}
