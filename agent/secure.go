package agent

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"
	certutil "k8s.io/client-go/util/cert"
)

// Secure is how metrics are served over TLS, to those whom the API server allows "get" on
// the path /metrics. Who is asking says the bearer token, as with the kubelet.
type Secure struct {
	// CertFile and KeyFile are the server's certificate, which is read again when the files
	// change. Without them the agent signs one itself.
	CertFile, KeyFile string
	// Reviews asks the API server about tokens and rights. It is a client by itself, so that
	// its rate limit, which strangers can exhaust, is not the agent's own.
	Reviews kubernetes.Interface
}

// How long the API server's answers count; as in the kubelet's defaults. (A right that is
// given takes effect within 30 s, one that is taken away within 5 min.)
const (
	tokenFor   = 2 * time.Minute
	allowedFor = 5 * time.Minute
	deniedFor  = 30 * time.Second
	reviewTime = 5 * time.Second
)

// guarded lets those through to a handler who may get its path.
func (s *Secure) guarded(next http.Handler) (http.Handler, error) {
	backoff := &wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 3}
	who, _, err := authenticatorfactory.DelegatingAuthenticatorConfig{TokenAccessReviewClient: s.Reviews.AuthenticationV1(),
		TokenAccessReviewTimeout: reviewTime, WebhookRetryBackoff: backoff, CacheTTL: tokenFor}.New()
	if err != nil {
		return nil, fmt.Errorf("authenticate readers of metrics: %w", err)
	}
	may, err := authorizerfactory.DelegatingAuthorizerConfig{SubjectAccessReviewClient: s.Reviews.AuthorizationV1(),
		AllowCacheTTL: allowedFor, DenyCacheTTL: deniedFor, WebhookRetryBackoff: backoff}.New()
	if err != nil {
		return nil, fmt.Errorf("authorize readers of metrics: %w", err)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if admit(w, r, who, may) {
			next.ServeHTTP(w, r)
		}
	}), nil
}

// admit reports whether a request may be served, and answers it otherwise.
func admit(w http.ResponseWriter, r *http.Request, who authenticator.Request, may authorizer.Authorizer) bool {
	path := r.URL.Path
	by, ok, err := who.AuthenticateRequest(r)
	if err != nil || !ok {
		http.Error(w, "Unauthorized: send the bearer token of a user or service account that may get "+path, http.StatusUnauthorized)
		return false
	}
	decision, _, err := may.Authorize(r.Context(), authorizer.AttributesRecord{User: by.User, Verb: "get", Path: path})
	switch {
	case decision == authorizer.DecisionAllow:
		return true
	case err != nil:
		http.Error(w, "cannot ask the API server about the right to get "+path, http.StatusInternalServerError)
	default:
		http.Error(w, fmt.Sprintf("Forbidden: %s needs get on the nonResourceURL %s", by.User.GetName(), path), http.StatusForbidden)
	}
	return false
}

// serving is the server's side of TLS. Files that change are read again until the context
// ends.
func (s *Secure) serving() (config *tls.Config, run func(context.Context), err error) {
	config = &tls.Config{MinVersion: tls.VersionTLS12}
	if s.CertFile == "" {
		host, err := os.Hostname()
		if err != nil {
			return nil, nil, fmt.Errorf("make a certificate: %w", err)
		}
		cert, key, err := certutil.GenerateSelfSignedCertKey(host, []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
		if err != nil {
			return nil, nil, fmt.Errorf("make a certificate: %w", err)
		}
		pair, err := tls.X509KeyPair(cert, key)
		config.Certificates = []tls.Certificate{pair}
		return config, func(context.Context) {}, err
	}
	files, err := dynamiccertificates.NewDynamicServingContentFromFiles("metrics", s.CertFile, s.KeyFile)
	if err != nil {
		return nil, nil, fmt.Errorf("read the certificate for metrics: %w", err)
	}
	config.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		pair, err := tls.X509KeyPair(files.CurrentCertKeyContent())
		return &pair, err
	}
	return config, func(ctx context.Context) { files.Run(ctx, 1) }, nil
}
