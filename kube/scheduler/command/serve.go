package command

import (
	"context"
	"net/http"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/server"

	"pinfold.dev/pinfold/internal/connlimit"
)

// Bounds of what clients can make the scheduler keep, whoever they are. Kubernetes' server keeps up
// to 1 MiB of headers per connection, and would send the API server all of them for review.
const (
	maxConnections = 32
	maxURL         = 256     // bytes; Kubernetes remembers 8,192 of those that a client may not get
	maxHeaders     = 8 << 10 // bytes of all values; the token of a service account has 1 to 2 KiB
)

// limit bounds what the clients of a server can make it keep. The server has health checks, too,
// which a new connection reaches however many there are.
func limit(serving *server.SecureServingInfo, clients *server.AuthenticationInfo) {
	if serving == nil {
		return
	}
	serving.Listener = connlimit.New(serving.Listener, maxConnections)
	serving.DisableHTTP2 = true // a connection of HTTP/2 has any number of requests at a time
	known, reviews := clients.Authenticator, make(chan struct{}, maxConnections)
	clients.Authenticator = authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
		size := 0
		for _, values := range r.Header {
			for _, value := range values {
				size += len(value)
			}
		}
		if len(r.RequestURI) > maxURL || size > maxHeaders {
			return nil, false, nil
		}
		r.Header.Del("Sec-Websocket-Protocol") // which would be another place for a token
		if r.Header.Get("Authorization") == "" {
			return known.AuthenticateRequest(r)
		}
		reviews <- struct{}{}
		defer func() { <-reviews }()
		// A review outlives the client's connection, so this waits for its end.
		return known.AuthenticateRequest(r.WithContext(context.WithoutCancel(r.Context())))
	})
}
