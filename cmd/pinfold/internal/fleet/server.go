package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"k8s.io/client-go/transport"

	"pinfold.dev/pinfold/cmd/internal/frame"
	"pinfold.dev/pinfold/cmd/pinfold/internal/cluster"
	"pinfold.dev/pinfold/report"
)

// server says how a server is reached: at a URL, or as a service of the cluster.
type server struct {
	url, serviceName  string
	service           service
	headers           []string
	tokenFile, caFile string
	insecure          bool
}

// answerTimeout is how long a server may take for an answer. Prometheus itself ends a query after two
// minutes, unless it is told otherwise.
const answerTimeout = 5 * time.Minute

// redirectError is an answer that the server is elsewhere.
type redirectError struct{ to *url.URL }

func (e *redirectError) Error() string { return "a redirect to " + e.to.Redacted() }

// connect returns a client of the server.
func (s *server) connect(ctx context.Context) (promv1.API, error) {
	header := http.Header{}
	for _, text := range s.headers {
		name, value, ok := strings.Cut(text, ":")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return nil, frame.Usagef("--header %q: want \"NAME: VALUE\", as in \"X-Scope-OrgID: shop\"", text)
		}
		header.Add(name, strings.TrimSpace(value))
	}
	address, round, err := s.transport(ctx, header)
	if err != nil {
		return nil, err
	}
	client, err := api.NewClient(api.Config{Address: address, Client: &http.Client{
		Transport: &exchange{header, maxAnswer, round}, Timeout: answerTimeout,
		// The token and the headers are for the given server only.
		CheckRedirect: func(r *http.Request, _ []*http.Request) error { return &redirectError{r.URL} },
	}})
	if err != nil {
		return nil, err
	}
	return promv1.NewAPI(client), nil
}

// transport returns the URL of the server, and what sends requests to it.
func (s *server) transport(ctx context.Context, header http.Header) (string, http.RoundTripper, error) {
	if s.serviceName != "" {
		if header.Get("Authorization") != "" {
			return "", nil, frame.Usagef("--header Authorization would replace your credentials for the API server, which passes none on: use 'kubectl port-forward' and --prometheus")
		}
		if err := s.service.parse(s.serviceName); err != nil {
			return "", nil, err
		}
		return s.service.connect(ctx)
	}
	at, err := url.Parse(s.url)
	if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" {
		return "", nil, frame.Usagef("--prometheus %v: want a URL such as http://prometheus.monitoring:9090", s)
	}
	for _, file := range []string{s.tokenFile, s.caFile} {
		if file == "" {
			continue
		}
		if _, err := os.Stat(file); err != nil {
			return "", nil, err
		}
	}
	round, err := transport.New(&transport.Config{TLS: transport.TLSConfig{CAFile: s.caFile, Insecure: s.insecure}, BearerTokenFile: s.tokenFile})
	return s.url, round, err
}

// maxAnswer is the largest answer to a query that is read, in bytes. Those about a thousand
// containers have some 1 MB, or 30 MB with what agents have counted.
const maxAnswer = 256 << 20

// exchange adds a header to requests, and bounds answers.
type exchange struct {
	header http.Header
	max    int64
	next   http.RoundTripper
}

func (e *exchange) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, values := range e.header {
		r.Header[name] = values
	}
	answer, err := e.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	answer.Body = http.MaxBytesReader(nil, answer.Body, e.max)
	return answer, nil
}

// String names the server.
func (s *server) String() string {
	if s.serviceName != "" {
		return "service " + s.service.String()
	}
	if at, err := url.Parse(s.url); err == nil {
		return at.Redacted()
	}
	return s.url
}

// explain adds to the error of a query what to do about it.
func (s *server) explain(ctx context.Context, err error) error {
	var answer *promv1.Error
	var unreachable *url.Error
	var elsewhere *redirectError
	switch {
	case errors.As(err, &elsewhere):
		return fmt.Errorf("%v answers with %w, which is not followed: give that URL, if you trust it with your credentials; it may also be a page to log in, for which there are --token-file and --header", s, elsewhere)
	case s.serviceName != "" && (ctx.Err() != nil || errors.As(err, &unreachable)):
		return cluster.Explain(ctx, s.service.host, err)
	case ctx.Err() != nil:
		return errors.New("interrupted")
	case errors.As(err, &unreachable) && unreachable.Timeout():
		return fmt.Errorf("%v has not answered within %v: ask for less, with --since or --namespace", s, answerTimeout)
	case errors.As(err, &unreachable):
		return fmt.Errorf("%v does not answer: %w", s, unreachable.Err)
	case !errors.As(err, &answer):
		return err
	}
	if s.serviceName != "" {
		if explained := s.service.explain(answer); explained != nil {
			return explained
		}
	}
	if said := sayings(answer.Detail); said != "" {
		err = fmt.Errorf("%w: %s", err, said)
	}
	switch {
	case strings.Contains(answer.Msg, "401") || strings.Contains(answer.Msg, "403"):
		if s.serviceName != "" {
			return fmt.Errorf("%w: %v wants credentials of its own, which the API server does not pass on: use 'kubectl port-forward' and --prometheus", err, s)
		}
		return fmt.Errorf("%w: give --token-file or --header", err)
	case answer.Type == promv1.ErrTimeout, strings.Contains(answer.Detail, "timed out"):
		return fmt.Errorf("%w: ask for less, with --since or --namespace", err)
	case answer.Type == promv1.ErrBadResponse, strings.Contains(answer.Msg, "404"):
		return fmt.Errorf("%w: is %v a Prometheus, and does its address have a path, such as /prometheus?", err, s)
	}
	return err
}

// sayings returns what the body of an answer that is not one of the API says, shortened.
func sayings(body string) string {
	var known struct{ Error, Message string }
	if json.Unmarshal([]byte(body), &known) == nil {
		body = cmp.Or(known.Error, known.Message)
	}
	const most = 200
	text := []rune(report.Printable(strings.Join(strings.Fields(body), " ")))
	if len(text) > most {
		text = append(text[:most], '…')
	}
	return string(text)
}
