package kubelet

import (
	"encoding/pem"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
)

// node1 is the name of the node.
const node1 = "n1"

// configz is a shortened answer of kubelet 1.37.
const configz = `{"kubeletconfig":{"enableServer":true,"syncFrequency":"1m0s","cgroupsPerQOS":true,"cgroupDriver":"cgroupfs",` +
	`"cpuManagerPolicy":"none","cpuManagerReconcilePeriod":"10s","cpuCFSQuota":true,"cpuCFSQuotaPeriod":"50ms",` +
	`"reservedSystemCPUs":"0-1","cgroupRoot":"/"}}`

// kubeletPods is a shortened answer of kubelet 1.37 with a static pod and one of the API server.
const kubeletPods = `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[` +
	`{"metadata":{"name":"etcd-n1","namespace":"kube-system","uid":"0a5f","annotations":{"kubernetes.io/config.hash":"0a5f",` +
	`"kubernetes.io/config.seen":"2026-11-22T06:00:00Z","kubernetes.io/config.source":"file"}},"spec":{"containers":[]},"status":{}},` +
	`{"metadata":{"name":"web","namespace":"default","uid":"11111111-2222","annotations":{"kubernetes.io/config.source":"api"}}}]}`

func TestStaticPodsOfKubelet(t *testing.T) {
	_, port := serveConfigz(t)
	client := newClient("127.0.0.1", port)
	got, err := client.StaticPods(t.Context())
	want := map[ledger.PodID]types.NamespacedName{"0a5f": {Namespace: "kube-system", Name: "etcd-n1"}}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	client.Config = &rest.Config{BearerToken: "wrong"}
	if _, err := client.StaticPods(t.Context()); err == nil || !strings.Contains(err.Error(), "nodes/pods") {
		t.Errorf("without permission: %v", err)
	}
	for _, text := range []string{"", "{}", `{"kind":"PodList","items":[1]}`, "<html>"} {
		if got, err := parseStaticPods([]byte(text)); err == nil {
			t.Errorf("%q gives %v", text, got)
		}
	}
}

func TestParseKubelet(t *testing.T) {
	got, err := parseKubelet([]byte(configz))
	want := control.Kubelet{CPUManagerPolicy: "none", ReservedCPUs: cpuset.MustParse("0-1"), CgroupRoot: "/"}
	want.Quota.Period = 50 * time.Millisecond
	if err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	got, err = parseKubelet([]byte(`{"kubeletconfig":{"cpuManagerPolicy":"Static","cpuCFSQuota":false,"cgroupsPerQOS":false}}`))
	if err != nil || got.CPUManagerPolicy != "static" || !got.Quota.NoQuota || !got.NoPodGroups {
		t.Errorf("%+v, %v", got, err)
	}
	for _, text := range []string{"", "{}", `{"kubeletconfig":{}}`, `{"kubeletconfig":{"cpuManagerPolicy":"none","reservedSystemCPUs":"x"}}`, "<html>"} {
		if got, err := parseKubelet([]byte(text)); err == nil {
			t.Errorf("%q gives %+v", text, got)
		}
	}
}

func FuzzParseKubelet(f *testing.F) {
	f.Add([]byte(configz))
	f.Fuzz(func(t *testing.T, text []byte) {
		if k, err := parseKubelet(text); err == nil && k.CPUManagerPolicy == "" {
			t.Errorf("neither a policy nor an error for %q", text)
		}
	})
}

// kubeletClient returns a client with the token of serveConfigz, for a node whose kubelet has the
// given address.
func newClient(host string, port int) Client {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node1}, Status: corev1.NodeStatus{
		Addresses:       []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: node1}, {Type: corev1.NodeInternalIP, Address: host}},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(port)}},
	}}
	return Client{Client: fake.NewClientset(node), NodeName: node1, Config: &rest.Config{BearerToken: "secret"}}
}

// serveConfigz serves the API of a kubelet to clients with a token.
func serveConfigz(t *testing.T) (server *httptest.Server, port int) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("the kubelet's socket must belong to root: run the test as root")
	}
	server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") != "Bearer secret":
			http.Error(w, "Forbidden (user=system:anonymous, verb=get, resource=nodes, subresource=configz)", http.StatusForbidden)
		case r.URL.Path == "/pods":
			_, _ = w.Write([]byte(kubeletPods))
		case r.URL.Path != "/configz":
			http.NotFound(w, r)
		default:
			_, _ = w.Write([]byte(configz))
		}
	}))
	t.Cleanup(server.Close)
	_, text, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if port, err = strconv.Atoi(text); err != nil {
		t.Fatal(err)
	}
	return server, port
}

func TestClient(t *testing.T) {
	server, port := serveConfigz(t)
	client := newClient("127.0.0.1", port)
	if got, err := client.Configuration(t.Context()); err != nil || got.CPUManagerPolicy != "none" {
		t.Errorf("%+v, %v", got, err)
	}
	client.Config = &rest.Config{BearerToken: "wrong"}
	if _, err := client.Configuration(t.Context()); err == nil || !strings.Contains(err.Error(), "nodes/configz") {
		t.Errorf("without permission: %v", err)
	}
	// Without a CA, any other machine could answer and would get the token.
	if _, err := newClient("192.0.2.1", port).Configuration(t.Context()); err == nil || !strings.Contains(err.Error(), "--kubelet-ca") {
		t.Errorf("to another machine: %v", err)
	}
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	client = newClient("127.0.0.1", port)
	client.CAFile = ca
	if _, err := client.Configuration(t.Context()); err != nil {
		t.Errorf("with the right CA: %v", err)
	}
	if err := os.WriteFile(ca, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Configuration(t.Context()); err == nil || !strings.Contains(err.Error(), "no certificate") {
		t.Errorf("with a broken CA: %v", err)
	}
}
