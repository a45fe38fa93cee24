package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// usage is what agents have asked of an API server, and what that has cost.
type usage struct {
	requests        map[string]int // by verb and resource
	sent, got       int64          // bytes
	apiServer, etcd time.Duration  // CPU time
	memory          uint64         // resident, of the API server, in bytes
}

func (u usage) total() (n int) {
	for _, count := range u.requests {
		n += count
	}
	return n
}

// since returns what was used since an earlier time, and the present memory.
func (u usage) since(before usage) usage {
	u.requests = maps.Clone(u.requests)
	for kind, count := range before.requests {
		if u.requests[kind] -= count; u.requests[kind] == 0 {
			delete(u.requests, kind)
		}
	}
	u.sent, u.got, u.apiServer, u.etcd = u.sent-before.sent, u.got-before.got, u.apiServer-before.apiServer, u.etcd-before.etcd
	return u
}

// print prints the requests, the most frequent first.
func (u usage) print(w io.Writer, phase string, each float64, unit string) {
	kinds := slices.SortedFunc(maps.Keys(u.requests), func(a, b string) int {
		return cmp.Or(u.requests[b]-u.requests[a], strings.Compare(a, b))
	})
	for _, kind := range kinds {
		fmt.Fprintf(w, "%s: %8.2f per %s  %s\n", phase, float64(u.requests[kind])/each, unit, kind)
	}
}

// counts counts the requests and bytes of all agents.
type counts struct {
	sent, got atomic.Int64
	mu        sync.Mutex
	requests  map[string]int
}

func (c *counts) get() usage {
	c.mu.Lock()
	defer c.mu.Unlock()
	return usage{requests: maps.Clone(c.requests), sent: c.sent.Load(), got: c.got.Load()}
}

// count counts a request.
func (c *counts) count(r *http.Request) {
	info, err := (&request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}).NewRequestInfo(r)
	kind := r.Method + " " + r.URL.Path
	if err == nil && info.IsResourceRequest {
		kind = info.Verb + " " + strings.TrimSuffix(info.Resource+"/"+info.Subresource, "/")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests[kind]++
}

// counted is a transport whose requests are counted.
type counted struct {
	next   http.RoundTripper
	counts *counts
}

// RoundTrip implements [http.RoundTripper].
func (c counted) RoundTrip(r *http.Request) (*http.Response, error) {
	c.counts.count(r)
	return c.next.RoundTrip(r)
}

// countedConn is a connection whose bytes are counted.
type countedConn struct {
	net.Conn
	counts *counts
}

// Read implements [net.Conn].
func (c countedConn) Read(b []byte) (n int, err error) {
	n, err = c.Conn.Read(b)
	c.counts.got.Add(int64(n))
	return n, err
}

// Write implements [net.Conn].
func (c countedConn) Write(b []byte) (n int, err error) {
	n, err = c.Conn.Write(b)
	c.counts.sent.Add(int64(n))
	return n, err
}

func (c *counts) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: 30 * time.Second}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return countedConn{conn, c}, nil
}
