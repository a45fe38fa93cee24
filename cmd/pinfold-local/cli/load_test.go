package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"pinfold.dev/pinfold/cmd/internal/usage"
)

// TestLoad sends requests to two paths of a server, one of which fails.
func TestLoad(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/busy", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("cpu") != "3.2ms" {
			http.Error(w, "no CPU time was asked for", http.StatusBadRequest)
		}
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	flags := []string{"load", "--batch", "3", "--every", "20ms", "--duration", "100ms", "--cpu", "3.2ms"}

	stdout, stderr, err := runHere(t, append(flags, "-o", "json", server.URL+"/busy")...)
	var rows []struct {
		Name     string         `json:"name"`
		Requests int            `json:"requests"`
		Failed   map[string]int `json:"failed"`
	}
	if json.Unmarshal([]byte(stdout), &rows) != nil || len(rows) != 1 || rows[0].Requests != 15 || len(rows[0].Failed) > 0 || stderr != "" || err != nil {
		t.Errorf("%v %q\n%s", err, stderr, stdout)
	}

	stdout, _, err = runHere(t, append(flags, server.URL+"/busy", server.URL+"/absent")...)
	if err == nil || err.Error() != server.URL+"/absent answered no request successfully" || usage.ExitStatus(err) != 1 {
		t.Errorf("error %v", err)
	}
	for _, want := range []string{server.URL + "/busy    15 ", server.URL + "/absent: 15 requests failed: answered with 404 Not Found\n"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
}
