package cluster

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// tokenOf creates a service account, with a role unless that has no name, and returns its token.
func (c *test) tokenOf(name, role string) string {
	c.Helper()
	accounts := c.client.CoreV1().ServiceAccounts(c.home)
	_, err := accounts.Create(c.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	c.must(err)
	if role != "" {
		bindings := c.client.RbacV1().ClusterRoleBindings()
		_, err := bindings.Create(c.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: c.home + "-" + name},
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: name, Namespace: c.home}}}, metav1.CreateOptions{})
		c.must(err)
		c.Cleanup(func() { c.must(bindings.Delete(context.Background(), c.home+"-"+name, metav1.DeleteOptions{})) })
	}
	token, err := accounts.CreateToken(c.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	c.must(err)
	return token.Status.Token
}

// createRole creates a cluster role until the test ends.
func (c *test) createRole(role *rbacv1.ClusterRole) {
	c.Helper()
	roles := c.client.RbacV1().ClusterRoles()
	_, err := roles.Create(c.Context(), role, metav1.CreateOptions{})
	c.must(err)
	c.Cleanup(func() { c.must(roles.Delete(context.Background(), role.Name, metav1.DeleteOptions{})) })
}

// metricsAreGuarded requests an agent's metrics and profiles without authentication, without the permission, and
// as Prometheus. Health needs no authentication.
func (c *test) metricsAreGuarded(address string) {
	c.Helper()
	c.createRole(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "metrics-reader"},
		Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}}})
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // the agent's own certificate, on loopback
	defer client.CloseIdleConnections()
	ask := func(path, token string) (int, error) {
		request, err := http.NewRequestWithContext(c.Context(), http.MethodGet, "https://"+address+path, nil)
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
	const metrics, profiles, profile = "/metrics", "/debug/pprof/", "/debug/pprof/heap"
	c.createRole(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "profile-reader"},
		Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{profiles + "*"}, Verbs: []string{"get"}}}})
	reader, developer, stranger := c.tokenOf("reader", "metrics-reader"), c.tokenOf("developer", "profile-reader"), c.tokenOf("stranger", "")
	for _, test := range []struct {
		what, path, token string
		want              int
	}{
		{"anonymous", metrics, "", http.StatusUnauthorized},
		{"a forged token", metrics, "eyJhbGciOiJub25lIn0.e30.", http.StatusUnauthorized},
		{"without permission", metrics, stranger, http.StatusForbidden},
		{"Prometheus", metrics, reader, http.StatusOK},
		{"anonymous", profile, "", http.StatusUnauthorized},
		{"Prometheus", profile, reader, http.StatusForbidden},
		{"a developer", profiles, developer, http.StatusOK},
		{"a developer", profile, developer, http.StatusOK},
		{"a developer", profiles + "profile?seconds=1", developer, http.StatusOK},
		{"a developer", metrics, developer, http.StatusForbidden},
	} {
		c.eventually(test.what+" asks for "+test.path, func() error { // a new permission becomes effective after a moment
			got, err := ask(test.path, test.token)
			if err == nil && got != test.want {
				err = fmt.Errorf("status %d, want %d", got, test.want)
			}
			return err
		})
	}
	response, err := http.Get("http://" + address + "/metrics") //nolint:noctx // on loopback
	c.must(err)
	c.must(response.Body.Close())
	if response.StatusCode == http.StatusOK {
		c.Error("metrics are served without TLS")
	}
}
