package prometheus

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"pinfold.dev/pinfold/test/must"
)

// connect returns a client with these flags.
func connect(t *testing.T, args ...string) (*Client, error) {
	t.Helper()
	cmd := &cobra.Command{Use: "x"}
	var s Server
	s.AddFlags(cmd)
	must.Do(t, cmd.ParseFlags(args))
	return s.Connect()
}

// TestFlags: wrong flags are refused before anything is sent.
func TestFlags(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	must.Do(t, os.WriteFile(empty, nil, 0o600))
	const url = "--prometheus=http://localhost:1"
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--prometheus="}, `--prometheus ""`},
		{[]string{"--prometheus=localhost:9090"}, "it must be a URL"},
		{[]string{"--prometheus=ftp://localhost"}, "it must be a URL"},
		{[]string{"--prometheus=http://"}, "it must be a URL"},
		{[]string{url, "--prometheus-header=X"}, "NAME:VALUE"},
		{[]string{url, "--prometheus-header=: x"}, "NAME:VALUE"},
		{[]string{url, "--prometheus-header=X: a\r\nY: b"}, "NAME:VALUE"},
		{[]string{url, "--prometheus-token-file=" + dir + "/none"}, "--prometheus-token-file: open"},
		{[]string{url, "--prometheus-ca-file=" + dir + "/none"}, "--prometheus-ca-file: open"},
		{[]string{url, "--prometheus-ca-file=" + empty}, "has no certificate"},
	} {
		if _, err := connect(t, test.args...); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: %v, want %q", test.args, err, test.want)
		}
	}
}

// TestSent: headers, the token and the password of the URL are sent, over TLS with a certificate of one's
// own.
func TestSent(t *testing.T) {
	var got *http.Request
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		_, _ = w.Write([]byte(`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"node":"a"},"value":[1,"2"]}]}}`))
	}))
	defer server.Close()
	dir := t.TempDir()
	certificate, token := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "token")
	must.Do(t, os.WriteFile(certificate, pemOf(server.Certificate().Raw), 0o600))
	must.Do(t, os.WriteFile(token, []byte("secret\n"), 0o600))
	client, err := connect(t, "--prometheus="+server.URL+"/prefix", "--prometheus-ca-file="+certificate, "--prometheus-token-file="+token,
		"--prometheus-header=X-Scope-OrgID: shop", "--prometheus-header=x-other:1")
	must.Do(t, err)
	vector := must.Get(client.Query(t.Context(), "up", time.Unix(1, 0)))(t)
	if len(vector) != 1 || vector[0].Value != 2 || string(vector[0].Metric["node"]) != "a" {
		t.Errorf("%v", vector)
	}
	if got.URL.Path != "/prefix/api/v1/query" || got.Header.Get("Authorization") != "Bearer secret" || got.Header.Get("X-Scope-OrgID") != "shop" || got.Header.Get("X-Other") != "1" {
		t.Errorf("%s %v", got.URL, got.Header)
	}
}

// TestAnswers: an answer without data is an error. It says what to do, and does not have the password.
func TestAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		status       int
		answer, want string
	}{
		"refused":   {401, "no", "refuses to answer"},
		"forbidden": {403, `{"status":"error"}`, "refuses to answer"},
		"page":      {200, "<html><body>Grafana</body></html>", "does not answer as Prometheus does"},
		"missing":   {404, "<html>404</html>", "does not answer as Prometheus does"},
		"bad":       {400, `{"status":"error","errorType":"bad_data","error":"parse error"}`, "parse error"},
		"slow":      {503, `{"status":"error","errorType":"timeout","error":"query timed out"}`, "query timed out"},
		"gateway":   {502, "bad gateway\nmore", "bad gateway"},
		"partial":   {200, `{"status":"success","warnings":["a store is gone"],"data":{"resultType":"vector","result":[]}}`, "only a part of the answer: a store is gone"},
		"scalar":    {200, `{"status":"success","data":{"resultType":"scalar","result":[1,"2"]}}`, "not with a vector"},
		"cut":       {200, `{"status":"success","data":{"resultType":"vec`, "does not answer as Prometheus does"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(test.status)
				_, _ = w.Write([]byte(test.answer))
			}))
			defer server.Close()
			client := must.Get(connect(t, "--prometheus="+strings.Replace(server.URL, "//", "//user:secret@", 1)))(t)
			_, err := client.Query(t.Context(), "up", time.Unix(1, 0))
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
	client := must.Get(connect(t, "--prometheus=http://user:secret@127.0.0.1:1"))(t)
	if _, err := client.Query(t.Context(), "up", time.Unix(1, 0)); err == nil || !strings.Contains(err.Error(), "does not answer: ") || strings.Contains(err.Error(), "secret") {
		t.Errorf("a port without a server: %v", err)
	}
}

// TestService: a server that is named by its service is reached by the API server's proxy.
func TestService(t *testing.T) {
	var path, authorization string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, authorization = r.URL.Path, r.Header.Get("Authorization")
		_, _ = w.Write([]byte(`{"status":"success","data":{"resultType":"vector","result":[]}}`))
	}))
	defer server.Close()
	s := Server{url: "monitoring/prometheus-k8s:web", Cluster: func() (*rest.Config, error) {
		return &rest.Config{Host: server.URL, BearerToken: "mine"}, nil
	}}
	client := must.Get(s.Connect())(t)
	must.Get(client.Query(t.Context(), "up", time.Unix(1, 0)))(t)
	if path != "/api/v1/namespaces/monitoring/services/prometheus-k8s:web/proxy/api/v1/query" || authorization != "Bearer mine" {
		t.Errorf("%s, %s", path, authorization)
	}
	s.headers = []string{"X-Scope-OrgID:shop"}
	if _, err := s.Connect(); err == nil || !strings.Contains(err.Error(), "port-forward") {
		t.Errorf("%v", err)
	}
}

func pemOf(certificate []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})
}
