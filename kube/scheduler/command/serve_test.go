package command

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	certutil "k8s.io/client-go/util/cert"

	"pinfold.dev/pinfold/test/must"
)

// TestServerBounds checks, on Kubernetes' own server, that clients without credentials cannot make
// the scheduler keep more than its bounds, and do not keep others out.
func TestServerBounds(t *testing.T) {
	certificate, key, err := certutil.GenerateSelfSignedCertKey("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	must.Do(t, err)
	reviews := 0
	clients := &server.AuthenticationInfo{Authenticator: authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		reviews++
		return &authenticator.Response{User: &user.DefaultInfo{}}, true, nil
	})}
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	serving := &server.SecureServingInfo{Listener: listener, Cert: must.Get(dynamiccertificates.NewStaticCertKeyContent("test", certificate, key))(t)}
	limit(serving, clients)
	held := make(chan context.Context)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, ok, _ := clients.Authenticator.AuthenticateRequest(r); !ok {
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
		}
		if r.URL.Path == "/held" {
			held <- r.Context()
			<-r.Context().Done()
		}
	})
	stop := make(chan struct{})
	stopped, _, err := serving.Serve(handler, time.Second, stop)
	must.Do(t, err)
	defer func() { close(stop); <-stopped }()

	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	url := "https://" + listener.Addr().String() + "/"
	go func() {
		if response, err := transport.RoundTrip(must.Get(http.NewRequest(http.MethodGet, url+"held", http.NoBody))(t)); err == nil {
			_ = response.Body.Close()
		}
	}()
	oldest := <-held
	for range 2 * maxConnections {
		c := must.Get(net.Dial("tcp", listener.Addr().String()))(t)
		defer c.Close()
	}
	<-oldest.Done()
	for _, test := range []struct {
		path, token  string
		code, review int
	}{
		{"metrics", strings.Repeat("x", 4<<10), http.StatusOK, 1},
		{"metrics", strings.Repeat("x", 64<<10), http.StatusUnauthorized, 0},
		{"metrics" + strings.Repeat("x", 1<<10), "", http.StatusUnauthorized, 0},
	} {
		reviews = 0
		request := must.Get(http.NewRequest(http.MethodGet, url+test.path, http.NoBody))(t)
		request.Header.Set("Authorization", "Bearer "+test.token)
		response, err := transport.RoundTrip(request)
		must.Do(t, err)
		must.Do(t, response.Body.Close())
		if response.StatusCode != test.code || reviews != test.review || response.ProtoMajor != 1 {
			t.Errorf("a path of %d and a token of %d bytes: %s %s, %d reviews, want %d and %d",
				len(test.path), len(test.token), response.Proto, response.Status, reviews, test.code, test.review)
		}
	}
}
