package kubelet

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/test/need"
)

// authority is a CA.
type authority struct {
	t           *testing.T
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, certificate: &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}}
	signed := a.sign(a.certificate)
	a.certificate, a.key = signed.Leaf, signed.PrivateKey.(*ecdsa.PrivateKey)
	return a
}

// pem returns the CA's certificate.
func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw})
}

// sign makes a key and signs its certificate; by itself if a is a new authority.
func (a *authority) sign(template *x509.Certificate) tls.Certificate {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	by := a.key
	if by == nil {
		by = key
	}
	template.SerialNumber, template.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: "test"}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, by)
	if err != nil {
		a.t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// server signs a certificate for a server with the given names.
func (a *authority) server(names ...string) tls.Certificate {
	return a.forUsage(x509.ExtKeyUsageServerAuth, names...)
}

func (a *authority) forUsage(usage x509.ExtKeyUsage, names ...string) tls.Certificate {
	template := &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{usage}}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	return a.sign(template)
}

// ownedListener accepts connections as a user: the user owns their sockets.
type ownedListener struct {
	net.Listener
	user int
}

func (l ownedListener) Accept() (net.Conn, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := syscall.Setfsuid(l.user); err != nil { // of this thread
		return nil, err
	}
	defer func() { _ = syscall.Setfsuid(0) }()
	return l.Listener.Accept()
}

const (
	root   = 0
	nobody = 65534
)

// listener is something that answers at the kubelet's port.
type listener struct {
	*httptest.Server
	tokens atomic.Int32 // credentials that it has received
}

// serveAs answers as a kubelet does, with sockets of a user.
func serveAs(t *testing.T, user int, address string, certificate tls.Certificate, answer http.HandlerFunc) *listener {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("sockets of root and of another user can only be made by root: run the test as root")
	}
	l := &listener{}
	l.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			l.tokens.Add(1)
		}
		answer(w, r)
	}))
	l.Listener.Close()
	on, err := net.Listen("tcp", address)
	if err != nil {
		t.Skipf("no address %s on this machine: %v", address, err)
	}
	l.Listener = ownedListener{on, user}
	l.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	l.EnableHTTP2 = true
	l.StartTLS()
	t.Cleanup(l.Close)
	return l
}

func (l *listener) port() int { return l.Listener.Addr().(*net.TCPAddr).Port }

func answerConfigz(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(configz)) }

// TestWhoGetsTheToken: credentials go to a server whose certificate the cluster's CA has signed for
// this node, or to a socket of root, and to no other program at the kubelet's port.
func TestWhoGetsTheToken(t *testing.T) {
	cluster, other := newAuthority(t), newAuthority(t)
	for _, test := range []struct {
		name        string
		user        int
		listen, ask string
		certificate tls.Certificate
		refusal     string // part of the error; "" if it gets the token
	}{
		{"root, self-signed", root, "127.0.0.1:0", "127.0.0.1", other.server("n1"), ""},
		{"another user, self-signed", nobody, "127.0.0.1:0", "127.0.0.1", other.server("n1", "127.0.0.1"), "user 65534"},
		{"another user, signed for the address", nobody, "127.0.0.1:0", "127.0.0.1", cluster.server("127.0.0.1"), ""},
		{"another user, signed for the node", nobody, "127.0.0.1:0", "127.0.0.1", cluster.server(node1), ""},
		{"another user, signed for another node", nobody, "127.0.0.1:0", "127.0.0.1", cluster.server("n2", "192.0.2.1"), "user 65534"},
		{"another user, signed for a client", nobody, "127.0.0.1:0", "127.0.0.1", cluster.forUsage(x509.ExtKeyUsageClientAuth, "127.0.0.1"), "user 65534"},
		{"root, signed for another node", root, "127.0.0.1:0", "127.0.0.1", cluster.server("n2"), ""},
		{"root, IPv6", root, "[::1]:0", "::1", other.server("n1"), ""},
		{"another user, IPv6", nobody, "[::1]:0", "::1", other.server("n1"), "user 65534"},
		{"root, IPv4 on a socket of IPv6", root, "[::]:0", "127.0.0.1", other.server("n1"), ""},
		{"another user, IPv4 on a socket of IPv6", nobody, "[::]:0", "127.0.0.1", other.server("n1"), "user 65534"},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := serveAs(t, test.user, test.listen, test.certificate, answerConfigz)
			client := newClient(test.ask, server.port())
			client.Config.CAData = cluster.pem()
			_, err := client.Configuration(t.Context())
			checkAnswer(t, server, err, test.refusal)
		})
	}
}

// checkAnswer checks whether a server got the token. Without a refusal it must have.
func checkAnswer(t *testing.T, server *listener, err error, refusal string) {
	t.Helper()
	switch got := server.tokens.Swap(0); {
	case refusal == "" && (err != nil || got != 1):
		t.Errorf("%v; the server got %d tokens, want 1", err, got)
	case refusal != "" && got != 0:
		t.Errorf("the server got the token: %v", err)
	case refusal != "" && (err == nil || !strings.Contains(err.Error(), refusal) || !strings.Contains(err.Error(), "--kubelet-ca")):
		t.Errorf("error %v, want one with %q that names --kubelet-ca", err, refusal)
	}
}

// TestKubeletIsReplaced: each connection is verified, also after the kubelet's port has changed
// hands.
func TestKubeletIsReplaced(t *testing.T) {
	certificate := newAuthority(t).server("n1")
	kubelet := serveAs(t, root, "127.0.0.1:0", certificate, answerConfigz)
	port := kubelet.port()
	client := newClient("127.0.0.1", port)
	for range 2 {
		_, err := client.Configuration(t.Context())
		checkAnswer(t, kubelet, err, "")
		kubelet.Close()
		thief := serveAs(t, nobody, "127.0.0.1:"+strconv.Itoa(port), certificate, answerConfigz)
		_, err = client.Configuration(t.Context())
		checkAnswer(t, thief, err, "user 65534")
		thief.Close()
		kubelet = serveAs(t, root, "127.0.0.1:"+strconv.Itoa(port), certificate, answerConfigz)
	}
}

// TestKubeletRedirects: credentials are not sent to where the kubelet's answer points.
func TestKubeletRedirects(t *testing.T) {
	certificate := newAuthority(t).server("n1")
	thief := serveAs(t, root, "127.0.0.1:0", certificate, answerConfigz)
	for _, status := range []int{http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		kubelet := serveAs(t, root, "127.0.0.1:0", certificate, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, thief.URL+"/configz", status)
		})
		if got, err := newClient("127.0.0.1", kubelet.port()).Configuration(t.Context()); err == nil || thief.tokens.Load() != 0 {
			t.Errorf("status %d: %+v, %v; the other server got %d tokens", status, got, err, thief.tokens.Load())
		}
	}
}

// TestKubeletWithoutProxy: the kubelet is not asked through a proxy of the environment.
func TestKubeletWithoutProxy(t *testing.T) {
	address := ownAddress(t)
	certificate := newAuthority(t).server("n1")
	proxy := serveAs(t, root, "127.0.0.1:0", certificate, answerConfigz)
	var asked atomic.Int32
	proxy.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { asked.Add(1); w.WriteHeader(http.StatusBadGateway) })
	for _, key := range []string{"HTTP_PROXY", "HTTPS_PROXY", "https_proxy", "ALL_PROXY"} {
		t.Setenv(key, proxy.URL)
	}
	t.Setenv("NO_PROXY", "")
	kubelet := serveAs(t, root, net.JoinHostPort(address, "0"), certificate, answerConfigz)
	_, err := newClient(address, kubelet.port()).Configuration(t.Context())
	checkAnswer(t, kubelet, err, "")
	if asked.Load() != 0 {
		t.Error("the proxy was asked")
	}
}

// ownAddress returns an address of this machine for which the environment's proxies count.
func ownAddress(t *testing.T) string {
	t.Helper()
	need.This(t, "a network")
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
			return n.IP.String()
		}
	}
	t.Skip("this machine has only loopback addresses")
	return ""
}

// TestPeerElsewhere: a connection whose other end is not in this network namespace, because a rule
// of the firewall has redirected it to a pod, is not one to root.
func TestPeerElsewhere(t *testing.T) {
	server := serveAs(t, root, "127.0.0.1:0", newAuthority(t).server("n1"), answerConfigz)
	conn, err := tls.Dial("tcp", server.Listener.Addr().String(), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := checkPeer(conn, "/sys/fs/cgroup"); err != nil {
		t.Errorf("a socket of root: %v", err)
	}
	if err := checkPeer(redirected{conn}, "/sys/fs/cgroup"); err == nil || !strings.Contains(err.Error(), "network namespace") {
		t.Errorf("a redirected connection: %v", err)
	}
}

// redirected is a connection that was redirected to another address.
type redirected struct{ net.Conn }

func (r redirected) RemoteAddr() net.Addr {
	address := *r.Conn.RemoteAddr().(*net.TCPAddr)
	address.IP = net.IPv4(127, 0, 0, 99)
	return &address
}

// TestPeerInPod: root of a pod on the host's network is root in /proc/net/tcp, too. With cgroup
// version 2, the kernel says in which group its socket was made.
func TestPeerInPod(t *testing.T) {
	groups, own := unifiedGroups(t)
	certificate := newAuthority(t).server("n1")
	join := func(group string) {
		if err := os.WriteFile(filepath.Join(groups, group, "cgroup.procs"), []byte("0"), 0); err != nil {
			t.Fatal(err)
		}
	}
	top := filepath.Join(own, fmt.Sprintf("pinfold-test-%d", os.Getpid()))
	for group, refusal := range map[string]string{"kubepods.slice": "made in a pod", "kubelet-kubepods.slice": "made in a pod", "kubelet.service": ""} {
		group = filepath.Join(top, group)
		for _, made := range []string{top, group} {
			if err := os.Mkdir(filepath.Join(groups, made), 0o755); err != nil && !os.IsExist(err) {
				t.Skipf("no control group can be made: %v", err)
			}
			defer os.Remove(filepath.Join(groups, made))
		}
		join(group)
		server := serveAs(t, root, "127.0.0.1:0", certificate, answerConfigz)
		join(own)
		conn, err := tls.Dial("tcp", server.Listener.Addr().String(), &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		err = checkPeer(conn, groups)
		if (err == nil) != (refusal == "") || err != nil && !strings.Contains(err.Error(), refusal) {
			t.Errorf("a socket made in %s: %v, want %q", group, err, refusal)
		}
		conn.Close()
	}
}

// unifiedGroups returns a mount of cgroup version 2, which exists for the rest of the test, and
// this process's group in it.
func unifiedGroups(t *testing.T) (mount, own string) {
	t.Helper()
	need.This(t, "control groups of this machine")
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if group, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			own = group
		}
	}
	if own == "" || os.Getuid() != 0 {
		t.Skip("only root can mount cgroup version 2, where the kernel has it")
	}
	// The mount is in a namespace of this thread, which ends with the test.
	runtime.LockOSThread()
	mount = t.TempDir()
	err = errors.Join(unix.Unshare(unix.CLONE_FS|unix.CLONE_NEWNS), unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount("none", mount, "cgroup2", 0, ""))
	if err != nil {
		t.Skipf("cgroup version 2 cannot be mounted: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(mount, unix.MNT_DETACH) })
	return mount, own
}

// FuzzParsePeer: the kernel's answer is never read beyond its end.
func FuzzParsePeer(f *testing.F) {
	message := make([]byte, inetDiagMsg, inetDiagMsg+12)
	message[0], message[1] = unix.AF_INET, tcpEstablished
	f.Add(append(message, 12, 0, inetDiagCgroupID, 0, 7, 0, 0, 0, 0, 0, 0, 0))
	f.Fuzz(func(t *testing.T, message []byte) {
		if s, err := parsePeer(message); err != nil && s != (peer{}) {
			t.Errorf("%+v, %v", s, err)
		}
	})
}
