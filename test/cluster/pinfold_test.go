package cluster

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"pinfold.dev/pinfold/core/status"
	"pinfold.dev/pinfold/local/localcluster"
	"pinfold.dev/pinfold/test/need"
)

// pinfold runs the command pinfold with a kubeconfig, and returns its output and its exit status.
func (c *test) pinfold(kubeconfig string, args ...string) (stdout, stderr string, exit int) {
	c.Helper()
	binary, err := need.Program("pinfold")
	c.must(err)
	return c.execute(exec.CommandContext(c.Context(), binary, args...), "KUBECONFIG="+kubeconfig)
}

// execute runs a command with additional variables.
func (c *test) execute(command *exec.Cmd, variables ...string) (stdout, stderr string, exit int) {
	c.Helper()
	var out, messages bytes.Buffer
	command.Stdout, command.Stderr = &out, &messages
	command.Env = append(os.Environ(), variables...)
	err := command.Run()
	if ended := (*exec.ExitError)(nil); err != nil && !errors.As(err, &ended) {
		c.Fatal(err)
	}
	return out.String(), messages.String(), command.ProcessState.ExitCode()
}

// kubeconfig returns the administrator's kubeconfig of the cluster.
func (c *test) kubeconfig() string { return filepath.Join(c.dir, "kubeconfig") }

// kubeconfigOf writes a kubeconfig for a token.
func (c *test) kubeconfigOf(token string) string {
	c.Helper()
	config := rest.AnonymousClientConfig(c.config)
	return c.writeKubeconfig(&clientcmdapi.Cluster{Server: config.Host, CertificateAuthority: config.CAFile, CertificateAuthorityData: config.CAData}, token)
}

// startProxy starts a proxy in front of the API server, and returns a kubeconfig for it. Its
// clients have the rights of the scheduler. intercept wraps what sends requests on.
func (c *test) startProxy(intercept func(server *httputil.ReverseProxy) http.Handler) (kubeconfig string) {
	c.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(c.dir, "config", localcluster.Scheduler+".kubeconfig"))
	c.must(err)
	target, err := url.Parse(config.Host)
	c.must(err)
	transport, err := rest.TransportFor(config)
	c.must(err)
	server := httptest.NewServer(intercept(&httputil.ReverseProxy{Transport: transport, FlushInterval: -1, // watches are streams
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}))
	c.Cleanup(server.CloseClientConnections)
	return c.writeKubeconfig(&clientcmdapi.Cluster{Server: server.URL}, "")
}

func (c *test) writeKubeconfig(cluster *clientcmdapi.Cluster, token string) (file string) {
	c.Helper()
	made := clientcmdapi.NewConfig()
	made.Clusters["c"] = cluster
	made.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: token}
	made.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	made.CurrentContext = "x"
	file = filepath.Join(c.TempDir(), "kubeconfig")
	c.must(clientcmd.WriteToFile(*made, file))
	return file
}

// status returns the report of "pinfold status -o json" and the exit status.
func (c *test) status(kubeconfig string, args ...string) (report status.Report, exit int) {
	c.Helper()
	out, messages, exit := c.pinfold(kubeconfig, append([]string{"status", "-o", "json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		c.Fatalf("pinfold status %q: %v\n%s%s", args, err, out, messages)
	}
	return report, exit
}

// problems returns the problems of a kind.
func problemsOf(report status.Report, kind status.Kind) (found []status.Problem) {
	for _, p := range report.Problems {
		if p.Kind == kind {
			found = append(found, p)
		}
	}
	return found
}
