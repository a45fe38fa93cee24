package cluster

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"pinfold.dev/pinfold/core/status"
)

// pinfoldBinary builds the command pinfold when it is needed first.
var pinfoldBinary = sync.OnceValues(func() (string, error) {
	binary := filepath.Join(filepath.Dir(shared.binary), "pinfold")
	return binary, build(binary, "pinfold.dev/pinfold/cmd/pinfold")
})

// pinfold runs the command pinfold with a kubeconfig, and returns its output and its exit status.
func (c *test) pinfold(kubeconfig string, args ...string) (stdout, stderr string, exit int) {
	c.Helper()
	binary, err := pinfoldBinary()
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
	made := clientcmdapi.NewConfig()
	made.Clusters["c"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthority: config.CAFile, CertificateAuthorityData: config.CAData}
	made.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: token}
	made.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	made.CurrentContext = "x"
	file := filepath.Join(c.TempDir(), "kubeconfig")
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
