package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// lateBindings is a proxy in front of the API server. It answers the first Binding of each pod with
// 409 Conflict, as the API server does when etcd takes too long, and executes it later.
type lateBindings struct {
	proxy *httputil.ReverseProxy
	late  time.Duration
	// before, unless nil, is called before the first Binding, which then is not delayed.
	before func()
	mu     sync.Mutex
	seen   map[string]bool
	work   sync.WaitGroup
}

func (l *lateBindings) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	first := strings.HasSuffix(r.URL.Path, "/binding") && !l.seen[r.URL.Path]
	if first {
		l.seen[r.URL.Path] = true
	}
	l.mu.Unlock()
	if first && l.before != nil {
		l.before()
		first = false
	}
	if !first {
		l.proxy.ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	later := r.Clone(context.Background())
	later.Body = io.NopCloser(bytes.NewReader(body))
	l.work.Go(func() {
		time.Sleep(l.late)
		l.proxy.ServeHTTP(httptest.NewRecorder(), later)
	})
	status := metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: http.StatusConflict,
		Reason: metav1.StatusReasonConflict, Message: "Operation cannot be fulfilled on pods/binding: etcdserver: request timed out"}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusConflict)
	_ = json.NewEncoder(w).Encode(status)
}

// startLateBindings returns a kubeconfig for a scheduler whose requests pass through the proxy.
func (c *test) startLateBindings(late time.Duration) (proxy *lateBindings, kubeconfig string) {
	c.Helper()
	proxy = &lateBindings{late: late, seen: map[string]bool{}}
	kubeconfig = c.startProxy(func(server *httputil.ReverseProxy) http.Handler {
		proxy.proxy = server
		return proxy
	})
	return proxy, kubeconfig
}

// TestLateBindings: a Binding to which the API server answers with an error, but which it executes
// later, does not give CPUs to two pods.
func TestLateBindings(t *testing.T) {
	c := begin(t)
	const late = 3 * time.Second
	proxy, kubeconfig := c.startLateBindings(late)
	c.startScheduler(c.ownConfiguration("{leaderElect: false}", "{kubeconfig: "+kubeconfig+"}"))
	// 7 CPUs can be exclusive: two pods fit, and the others try the CPUs that are given back.
	for i := range 6 {
		c.create(ownPod(fmt.Sprint("p", i), small0, 3, ""))
	}
	c.atLeast(2, nil)
	proxy.work.Wait()
	time.Sleep(late) // for the last delayed Bindings
	c.checkBooks()
	if n, err := c.boundCount(); err != nil || n != 2 {
		t.Errorf("%d pods are bound, want 2, %v", n, err)
	}
	if len(proxy.seen) < 2 {
		t.Errorf("only %d requests passed the proxy", len(proxy.seen))
	}
}

// TestEditedWhileBinding: a pod that is edited during its Binding is decided about again. It does
// not get what it no longer asks for, and a forged allocation is overwritten.
func TestEditedWhileBinding(t *testing.T) {
	c := begin(t)
	c.create(asking("trial", 1, ""))
	c.unprotect("trial")
	edited := make(chan error, 1)
	proxy, kubeconfig := c.startLateBindings(0)
	proxy.before = func() {
		edited <- c.tryPatch("pod", `{"metadata":{"annotations":{"cpuset-scheduler":null,"pinfold.dev/cpu-allocation":"x"}}}`, false)
	}
	c.startScheduler(c.ownConfiguration("{leaderElect: false}", "{kubeconfig: "+kubeconfig+"}"))
	c.create(ownPod("pod", small0, 3, ""))
	c.must(<-edited)
	if got := c.bound("pod").Annotations["pinfold.dev/cpu-allocation"]; got != "" {
		t.Errorf("the pod no longer asks for CPUs, but has the allocation %s", got)
	}
	c.create(asking("next", 6, "")) // together with trial's, all that can be exclusive
	c.bound("next")
}
