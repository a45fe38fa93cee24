package agent

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/procfs"
	"golang.org/x/sync/errgroup"

	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/wait"
)

// BenchmarkMemoryUnderAttack reports the memory of an agent at rest, and its highest while a client
// without credentials sends long headers, long bodies and unknown tokens, and keeps thousands of
// connections open.
func BenchmarkMemoryUnderAttack(b *testing.B) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","status":{"authenticated":false}}`)
	}))
	defer api.Close()
	free := must.Get(net.Listen("tcp", "127.0.0.1:0"))(b)
	address := free.Addr().String()
	must.Do(b, free.Close())
	var rest, peak float64
	for b.Loop() {
		pid, kill := startChild(b, childOptions{Root: newTree(b).root, Groups: "/", RunDir: b.TempDir(), CPU: "0", Listen: address, Reviews: api.URL})
		wait.True(b, "the agent serves", func() bool { return statusOf(address) == http.StatusUnauthorized })
		process := must.Get(procfs.NewProc(pid))(b)
		rest = max(rest, float64(must.Get(process.NewStatus())(b).VmRSS))
		attack(address)
		if status := statusOf(address); status != http.StatusUnauthorized {
			b.Errorf("after the attack the agent answers %d", status)
		}
		peak = max(peak, float64(must.Get(process.NewStatus())(b).VmHWM))
		kill()
	}
	b.ReportMetric(rest/(1<<20), "rest-MiB")
	b.ReportMetric(peak/(1<<20), "peak-MiB")
}

func unverified() *tls.Config { return &tls.Config{InsecureSkipVerify: true} }

// statusOf returns the status of an answer to a client without credentials, 0 without an answer.
func statusOf(address string) int {
	client := http.Client{Transport: &http.Transport{TLSClientConfig: unverified(), DisableKeepAlives: true}}
	response, err := client.Get("https://" + address + "/metrics")
	if err != nil {
		return 0
	}
	_ = response.Body.Close()
	return response.StatusCode
}

// attack sends requests of several kinds on connections of their own, and keeps all open until the end.
func attack(address string) {
	const request, mega = "GET /metrics HTTP/1.1\r\nHost: x\r\n", 1 << 20
	var mu sync.Mutex
	var open []net.Conn
	for _, kind := range []struct {
		connections int
		send        func(i int) string
	}{
		{1000, func(i int) string {
			return fmt.Sprintf("%sAuthorization: Bearer %d%s\r\n\r\n", request, i, strings.Repeat("x", mega*9/10))
		}},
		{1000, func(i int) string {
			return fmt.Sprintf("%sAuthorization: Bearer %d%s\r\nContent-Length: %d\r\n\r\n%s", request, i, strings.Repeat("x", 4<<10), 2*mega, strings.Repeat("x", mega))
		}},
		{4000, func(int) string { return request }},
	} {
		var group errgroup.Group
		group.SetLimit(100)
		for i := range kind.connections {
			group.Go(func() error {
				c, err := tls.Dial("tcp", address, unverified())
				if err != nil {
					return nil
				}
				_, _ = io.WriteString(c, kind.send(i)) // the server may close it meanwhile
				mu.Lock()
				defer mu.Unlock()
				open = append(open, c)
				return nil
			})
		}
		_ = group.Wait()
	}
	for _, c := range open {
		_ = c.Close()
	}
}
