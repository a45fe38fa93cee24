package cluster

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestPrometheusService asks a server in the cluster through the API server, which has stored
// nothing, and checks the messages about all that can fail on the way. tools/monitoring tests the
// answers.
func TestPrometheusService(t *testing.T) {
	c := begin(t)
	address, methods := c.serveEmpty()
	c.createService("prometheus-k8s", corev1.ServicePort{Name: "web", Port: 9090}, corev1.ServicePort{Name: "reloader-web", Port: 8080})
	c.createService("alertmanager", corev1.ServicePort{Name: "web", Port: 9093})
	c.createService("prometheus-away", corev1.ServicePort{Name: "one", Port: 1}, corev1.ServicePort{Name: "two", Port: 2})
	c.endpoint("prometheus-k8s", "web", address)
	prometheus := c.roleOf("prometheus", "get", "services/proxy")
	both := c.kubeconfigOf(c.tokenOf("both", c.roleOf("both", "get", "services", "services/proxy")))
	proxyOnly := c.kubeconfigOf(c.tokenOf("proxy-only", prometheus))
	none := c.kubeconfigOf(c.tokenOf("none", ""))
	const nothing = "pinfold: the server has no container_cpu_usage_seconds_total of the last 168h0m0s"
	for _, test := range []struct{ kubeconfig, service, want string }{
		{c.kubeconfig(), "default/prometheus-k8s", nothing},
		{c.kubeconfig(), "default/prometheus-k8s:web", nothing},
		{both, "default/prometheus-k8s:9090", nothing},
		{both, "default/prometheus-k8s/prefix", nothing},
		{proxyOnly, "default/prometheus-k8s:web", nothing},
		{proxyOnly, "default/prometheus-k8s", "you may not read service default/prometheus-k8s: name the port as well, as in --prometheus-service default/prometheus-k8s:9090, or get the verb get of services in namespace default"},
		{none, "default/prometheus-k8s:web", "you may not reach service default/prometheus-k8s through the API server: it takes the verb get of services/proxy in namespace default"},
		{both, "default/prometheus", "there is no service default/prometheus: is its name right?"},
		{c.kubeconfig(), "default/prometheus", "there is no service default/prometheus: did you mean default/prometheus-k8s?"},
		{c.kubeconfig(), "kube-public/prometheus", "no service of namespace kube-public looks like a Prometheus; 'kubectl get services --all-namespaces' lists all"},
		{c.kubeconfig(), "default/prometheus-k8s:10", "service default/prometheus-k8s has no port 10: it has web (9090), reloader-web (8080)"},
		{c.kubeconfig(), "default/prometheus-away", "service default/prometheus-away has the ports one (1), two (2): name one"},
		{c.kubeconfig(), "default/prometheus-away:two", "service default/prometheus-away has no ready pod: 'kubectl -n default get pods' shows why"},
		{c.kubeconfigOf("wrong"), "default/prometheus-k8s", "rejects the credentials"},
	} {
		stdout, stderr, exit := c.pinfold(test.kubeconfig, "advise", "--prometheus-service", test.service)
		if exit != 1 || stdout != "" || !strings.Contains(stderr, test.want) {
			t.Errorf("%s: exit status %d, want 1 and %q\n%s%s", test.service, exit, test.want, stdout, stderr)
		}
	}
	if asked := methods(); asked[http.MethodGet] == 0 || asked[http.MethodPost] == 0 {
		t.Errorf("asked by the methods %v: GET is for those who may only get", asked)
	}
	if _, stderr, _ := c.pinfold(c.kubeconfig(), "advise", "--prometheus-service", "default/prometheus-k8s:reloader-web"); !strings.Contains(stderr, "has no ready pod") && !strings.Contains(stderr, "does not reach") {
		t.Errorf("another port: %s", stderr)
	}
}

// serveEmpty starts a server that knows no metric, at an address of this machine other than
// loopback, to which API servers do not connect. methods are those it was asked by.
func (c *test) serveEmpty() (address string, methods func() map[string]int) {
	c.Helper()
	var host string
	all, err := net.InterfaceAddrs()
	c.must(err)
	for _, a := range all {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil && ip.IP.IsGlobalUnicast() {
			host = ip.IP.String()
		}
	}
	if host == "" {
		c.Skip("needs an IPv4 address of this machine that is not loopback: an API server connects to no other")
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	c.must(err)
	asked := make(chan string, 1000)
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { //nolint:gosec // a test's
		asked <- r.Method
		fmt.Fprint(w, `{"status":"success","data":{"resultType":"matrix","result":[]}}`)
	})}}
	server.Start()
	c.Cleanup(server.Close)
	return listener.Addr().String(), func() map[string]int {
		n := map[string]int{}
		for len(asked) > 0 {
			n[<-asked]++
		}
		return n
	}
}

func (c *test) createService(name string, ports ...corev1.ServicePort) {
	c.Helper()
	services := c.client.CoreV1().Services("default")
	_, err := services.Create(c.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Ports: ports}}, metav1.CreateOptions{})
	c.must(err)
	c.Cleanup(func() { _ = services.Delete(context.Background(), name, metav1.DeleteOptions{}) })
}

// endpoint makes a pod at an address the endpoint of a service's port. An API server connects to
// addresses of pods only.
func (c *test) endpoint(service, port, address string) {
	c.Helper()
	host, text, err := net.SplitHostPort(address)
	c.must(err)
	number, err := net.LookupPort("tcp", text)
	c.must(err)
	pod := c.create(`
metadata: {name: prometheus}
spec:
  schedulerName: none
  containers: [{name: prometheus, image: prometheus}]
`)
	pod.Status.PodIP, pod.Status.PodIPs = host, []corev1.PodIP{{IP: host}}
	_, err = c.client.CoreV1().Pods(pod.Namespace).UpdateStatus(c.Context(), pod, metav1.UpdateOptions{})
	c.must(err)
	wanted := int32(number) //nolint:gosec // a port
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: service, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: &port, Port: &wanted}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{host}, TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}}}}
	slices := c.client.DiscoveryV1().EndpointSlices("default")
	_, err = slices.Create(c.Context(), slice, metav1.CreateOptions{})
	c.must(err)
	c.Cleanup(func() { _ = slices.Delete(context.Background(), service, metav1.DeleteOptions{}) })
}

// roleOf creates a cluster role that permits a verb on resources, and returns its name.
func (c *test) roleOf(name, verb string, resources ...string) string {
	c.Helper()
	name = "test-" + name
	_, err := c.client.RbacV1().ClusterRoles().Create(c.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: resources, Verbs: []string{verb}}}}, metav1.CreateOptions{})
	c.must(err)
	return name
}
