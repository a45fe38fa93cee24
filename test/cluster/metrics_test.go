package cluster

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// freeAddress returns an unused address on loopback.
func (c *test) freeAddress() string {
	c.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	c.must(err)
	defer listener.Close()
	return listener.Addr().String()
}

// tokenOf creates a service account in the namespace default, with a role unless that has no name,
// and returns its token.
func (c *test) tokenOf(name, role string) string {
	c.Helper()
	accounts := c.client.CoreV1().ServiceAccounts("default")
	_, err := accounts.Create(c.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	c.must(err)
	if role != "" {
		_, err := c.client.RbacV1().ClusterRoleBindings().Create(c.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: name, Namespace: "default"}}}, metav1.CreateOptions{})
		c.must(err)
	}
	token, err := accounts.CreateToken(c.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	c.must(err)
	return token.Status.Token
}

// metricsAreGuarded requests an agent's metrics without authentication, without the permission, and
// as Prometheus. Health needs no authentication.
func (c *test) metricsAreGuarded(address string) {
	c.Helper()
	_, err := c.client.RbacV1().ClusterRoles().Create(c.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "metrics-reader"},
		Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}}}, metav1.CreateOptions{})
	c.must(err)
	_, err = c.client.RbacV1().ClusterRoles().Create(c.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "profiler"},
		Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{"/debug/*"}, Verbs: []string{"get", "put"}}}}, metav1.CreateOptions{})
	c.must(err)
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // the agent's own certificate, on loopback
	defer client.CloseIdleConnections()
	ask := func(path, token string) (int, error) {
		method, body := http.MethodGet, ""
		if rest, level, ok := strings.Cut(path, "="); ok {
			method, path, body = http.MethodPut, rest, level
		}
		request, err := http.NewRequestWithContext(c.Context(), method, "https://"+address+path, strings.NewReader(body))
		c.must(err)
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		response, err := client.Do(request)
		if err != nil {
			return 0, err
		}
		return response.StatusCode, response.Body.Close()
	}
	reader, profiler, stranger := c.tokenOf("reader", "metrics-reader"), c.tokenOf("profiler", "profiler"), c.tokenOf("stranger", "")
	for _, test := range []struct {
		what, path, token string
		want              int
	}{
		{"anonymous", "/metrics", "", http.StatusUnauthorized},
		{"a forged token", "/metrics", "eyJhbGciOiJub25lIn0.e30.", http.StatusUnauthorized},
		{"without permission", "/metrics", stranger, http.StatusForbidden},
		{"Prometheus", "/metrics", reader, http.StatusOK},
		{"the kubelet's probe", "/healthz", "", http.StatusOK},
		{"Prometheus", "/debug/pprof/heap", reader, http.StatusForbidden},
		{"Prometheus", "/debug/log-level=debug", reader, http.StatusForbidden},
		{"an operator", "/debug/pprof/heap", profiler, http.StatusOK},
		{"an operator", "/debug/log-level=debug", profiler, http.StatusOK},
		{"an operator", "/debug/log-level=loud", profiler, http.StatusBadRequest},
	} {
		c.eventually(func() string { // a new permission becomes effective after a moment
			if got, err := ask(test.path, test.token); err != nil || got != test.want {
				return fmt.Sprintf("%s asks for %s: status %d, %v; want %d", test.what, test.path, got, err, test.want)
			}
			return ""
		})
	}
	response, err := http.Get("http://" + address + "/metrics") //nolint:noctx // on loopback
	c.must(err)
	c.must(response.Body.Close())
	if response.StatusCode == http.StatusOK {
		c.Error("metrics are served without TLS")
	}
}
