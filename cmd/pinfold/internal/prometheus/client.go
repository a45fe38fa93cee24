// Package prometheus asks a Prometheus server, or one with the same interface (Thanos, Mimir, Cortex,
// VictoriaMetrics):
//
//	var server prometheus.Server
//	server.AddFlags(cmd)
//	...
//	client, err := server.Connect()
//	vector, err := client.Query(ctx, "up", time.Now())
package prometheus

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"pinfold.dev/pinfold/cmd/frame"
)

// Server is where a server is, and what it wants to be sent. The zero value is no server.
type Server struct {
	// Cluster returns the connection to the cluster of a server that is named by its service.
	Cluster func() (*rest.Config, error)

	url       string
	tokenFile string
	caFile    string
	headers   []string
}

// AddFlags adds the flags --prometheus and those that need it.
func (s *Server) AddFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&s.url, "prometheus", "", "`URL` of a Prometheus server, such as http://localhost:9090, or its service, such as monitoring/prometheus:9090")
	f.StringVar(&s.tokenFile, "prometheus-token-file", "", "send it the bearer token in `FILE`")
	f.StringVar(&s.caFile, "prometheus-ca-file", "", "trust the certificates in `FILE` (PEM), instead of the system's")
	f.StringArrayVar(&s.headers, "prometheus-header", nil, "send it `NAME:VALUE`, such as X-Scope-OrgID:shop; may be repeated")
}

// SinceFlag adds the flag --since, a time as Prometheus writes it, such as 7d or 90m.
func SinceFlag(cmd *cobra.Command, p *time.Duration, otherwise time.Duration, usage string) {
	*p = otherwise
	frame.Var(cmd.Flags(), (*model.Duration)(p), "since", "TIME", usage, model.ParseDuration)
}

// Client asks a server.
type Client struct {
	api v1.API
	url string // without a password
}

// Connect returns a client. It sends nothing yet.
func (s *Server) Connect() (*Client, error) {
	if parts := service.FindStringSubmatch(s.url); parts != nil {
		return s.proxied(parts[1], parts[2])
	}
	address, err := url.Parse(s.url)
	if err != nil || address.Scheme != "http" && address.Scheme != "https" || address.Host == "" {
		return nil, frame.Usagef("--prometheus %q: it must be a URL such as http://localhost:9090, or NAMESPACE/SERVICE:PORT", s.url)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	sender := &sender{to: transport, header: http.Header{}}
	for _, header := range s.headers {
		name, value, ok := strings.Cut(header, ":")
		if name = strings.TrimSpace(name); !ok || name == "" || strings.ContainsAny(name, " \t\r\n") || strings.ContainsAny(value, "\r\n") {
			return nil, frame.Usagef("--prometheus-header %q: it must be NAME:VALUE", header)
		}
		sender.header.Add(name, strings.TrimSpace(value))
	}
	if s.tokenFile != "" {
		token, err := os.ReadFile(s.tokenFile)
		if err != nil {
			return nil, fmt.Errorf("--prometheus-token-file: %w", err)
		}
		sender.header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	if s.caFile != "" {
		certificates, err := os.ReadFile(s.caFile)
		if err != nil {
			return nil, fmt.Errorf("--prometheus-ca-file: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(certificates) {
			return nil, fmt.Errorf("--prometheus-ca-file: %s has no certificate in PEM", s.caFile)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	return newClient(s.url, address.Redacted(), sender)
}

func newClient(address, shown string, transport http.RoundTripper) (*Client, error) {
	client, err := api.NewClient(api.Config{Address: address, RoundTripper: transport})
	if err != nil {
		return nil, fmt.Errorf("--prometheus: %w", err)
	}
	return &Client{v1.NewAPI(client), shown}, nil
}

// service is NAMESPACE/SERVICE:PORT, where the port is a number or a name, and may be missing if there is
// one.
var service = regexp.MustCompile(`^([a-z0-9][-a-z0-9]*)/([a-z0-9][-a-z0-9]*(?::[a-z0-9][-a-z0-9]*)?)$`)

// proxied returns a client that asks the server by the API server's proxy for services.
func (s *Server) proxied(namespace, name string) (*Client, error) {
	if s.tokenFile != "" || s.caFile != "" || s.headers != nil {
		return nil, frame.Usagef("--prometheus %s is reached by the API server, which takes no --prometheus-token-file, --prometheus-ca-file and --prometheus-header: use 'kubectl port-forward', and the URL", s.url)
	}
	config, err := s.Cluster()
	if err != nil {
		return nil, err
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("--prometheus: %w", err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("--prometheus: %w", err)
	}
	address := base.JoinPath("api/v1/namespaces", namespace, "services", name, "proxy")
	return newClient(address.String(), "service "+s.url, transport)
}

// sender adds headers to requests.
type sender struct {
	to     http.RoundTripper
	header http.Header
}

// RoundTrip implements [http.RoundTripper].
func (s *sender) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	query := r.URL.Query() // VictoriaMetrics would not say that an answer is a part
	query.Set("deny_partial_response", "1")
	r.URL.RawQuery = query.Encode()
	for name, values := range s.header {
		r.Header[name] = values
	}
	return s.to.RoundTrip(r)
}

// Named reports whether the server is named by its service, and so reached by the API server.
func (s *Server) Named() bool { return service.MatchString(s.url) }

// queryTime is how long the server may compute an answer, and how long a client waits.
const queryTime = time.Minute

// Query returns the value of an expression at a time.
func (c *Client) Query(ctx context.Context, expression string, at time.Time) (model.Vector, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	value, warnings, err := c.api.Query(ctx, expression, at, v1.WithTimeout(queryTime))
	if err := c.check(warnings, err); err != nil {
		return nil, err
	}
	vector, ok := value.(model.Vector)
	if !ok {
		return nil, fmt.Errorf("%s answered with a %s, and not with a vector", c.url, value.Type())
	}
	return vector, nil
}

// QueryRange returns the values of an expression in steps.
func (c *Client) QueryRange(ctx context.Context, expression string, from, to time.Time, step time.Duration) (model.Matrix, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	value, warnings, err := c.api.QueryRange(ctx, expression, v1.Range{Start: from, End: to, Step: step}, v1.WithTimeout(queryTime))
	if err := c.check(warnings, err); err != nil {
		return nil, err
	}
	matrix, ok := value.(model.Matrix)
	if !ok {
		return nil, fmt.Errorf("%s answered with a %s, and not with a matrix", c.url, value.Type())
	}
	return matrix, nil
}

// check returns the error of an answer. What the server warns of is one, because the answer may be a part.
func (c *Client) check(warnings v1.Warnings, err error) error {
	if err != nil {
		return c.explain(err)
	}
	if len(warnings) > 0 {
		return fmt.Errorf("%s has only a part of the answer: %s", c.url, strings.Join(warnings, "; "))
	}
	return nil
}

// explain says what an error of a server means.
func (c *Client) explain(err error) error {
	var answer *v1.Error
	var failed *url.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s has not answered for %v: ask it about less time", c.url, queryTime)
	case errors.As(err, &failed): // without its URL, which may have a password
		return fmt.Errorf("%s does not answer: %w: is --prometheus right?", c.url, failed.Err)
	case !errors.As(err, &answer):
		return fmt.Errorf("%s: %w", c.url, err)
	}
	what := cmp.Or(strings.TrimSpace(firstLine(answer.Detail)), answer.Msg)
	switch {
	case answer.Type == v1.ErrClient && (strings.Contains(answer.Msg, "401") || strings.Contains(answer.Msg, "403")):
		if strings.HasPrefix(c.url, "service ") {
			return fmt.Errorf("%s: the API server or the service refuses (%s): you need the right to 'get' services/proxy there, or use 'kubectl port-forward', and the URL", c.url, answer.Msg)
		}
		return fmt.Errorf("%s refuses to answer (%s): give it --prometheus-token-file, or --prometheus-header", c.url, answer.Msg)
	case answer.Type == v1.ErrBadResponse, answer.Type == v1.ErrClient, strings.HasPrefix(what, "<"):
		return fmt.Errorf("%s does not answer as Prometheus does (%s): is --prometheus its address, without /api/v1?", c.url, answer.Msg)
	}
	return fmt.Errorf("%s: %s", c.url, what)
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line[:min(len(line), 300)]
}
