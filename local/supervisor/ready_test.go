package supervisor_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pinfold.dev/pinfold/local/supervisor"
)

func TestAnswers(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	ask := func(path string) error { return supervisor.Answers(server.Client(), server.URL+path)(t.Context()) }
	if err := ask("/readyz"); err != nil {
		t.Error(err)
	}
	if err := ask("/other"); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("not ready: %v", err)
	}
}

func TestAccepts(t *testing.T) {
	deep := filepath.Join(t.TempDir(), strings.Repeat("d", 120))
	socket := filepath.Join(deep, "s")
	ask := func() error { return supervisor.Accepts(socket)(t.Context()) }
	if err := os.Mkdir(deep, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := ask(); err == nil {
		t.Error("no error although the socket does not exist")
	}
	t.Chdir(deep) // so that the address of the socket is short
	listener, err := net.Listen("unix", "s")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if err := ask(); err != nil {
		t.Error(err)
	}
}
