package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/internal/atomicfile"
)

// KubeletClient asks a kubelet for its configuration (GET /configz) and its static pods
// (GET /pods), with the agent's own credentials, which need "get" on nodes/configz and
// nodes/pods.
type KubeletClient struct {
	Config *rest.Config
	// CAFile signs the kubelet's certificate. Without it the certificate is not
	// checked (kubelets sign their own by default), and only an address of this
	// machine is asked, so that the credentials do not leave it.
	CAFile string
}

// What is read of an answer at most.
const (
	largestConfig = 1 << 20
	largestPods   = 64 << 20
)

// Get asks the kubelet at an address and port.
func (c KubeletClient) Get(ctx context.Context, host string, port int) (control.Kubelet, error) {
	text, err := c.ask(ctx, host, port, "configz", largestConfig)
	if err == nil {
		var k control.Kubelet
		if k, err = ParseKubelet(text); err == nil {
			return k, nil
		}
	}
	return control.Kubelet{}, fmt.Errorf("ask the kubelet at %s for its configuration: %w", host, err)
}

// StaticPods asks the kubelet at an address and port for the static pods that it runs, by
// their ids (GET /pods).
func (c KubeletClient) StaticPods(ctx context.Context, host string, port int) (map[ledger.PodID]types.NamespacedName, error) {
	text, err := c.ask(ctx, host, port, "pods", largestPods)
	if err == nil {
		var pods map[ledger.PodID]types.NamespacedName
		if pods, err = parseStaticPods(text); err == nil {
			return pods, nil
		}
	}
	return nil, fmt.Errorf("ask the kubelet at %s for its static pods: %w", host, err)
}

// ask gets /what. The right to it is that to nodes/what.
func (c KubeletClient) ask(ctx context.Context, host string, port int, what string, most int64) ([]byte, error) {
	client, err := c.client(host)
	if err != nil {
		return nil, err
	}
	defer client.CloseIdleConnections()
	url := "https://" + net.JoinHostPort(host, strconv.Itoa(port)) + "/" + what
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, most))
	switch {
	case err != nil:
		return nil, err
	case response.StatusCode == http.StatusUnauthorized, response.StatusCode == http.StatusForbidden:
		return nil, fmt.Errorf("%s: the agent's service account needs get on nodes/%s, and the kubelet "+
			"webhook authentication and authorization: %s", response.Status, what, strings.TrimSpace(string(text)))
	case response.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s: %s", response.Status, strings.TrimSpace(string(text)))
	}
	return text, nil
}

func (c KubeletClient) client(host string) (*http.Client, error) {
	secure := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CAFile != "" {
		text, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, err
		}
		secure.RootCAs = x509.NewCertPool()
		if !secure.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s holds no certificate", c.CAFile)
		}
	} else {
		if err := isLocal(host); err != nil {
			return nil, err
		}
		secure.InsecureSkipVerify = true //nolint:gosec // the address is this machine's
	}
	if err := addClientCertificate(secure, c.Config); err != nil {
		return nil, err
	}
	wrap, err := transport.HTTPWrappersForConfig(&transport.Config{
		BearerToken: c.Config.BearerToken, BearerTokenFile: c.Config.BearerTokenFile},
		&http.Transport{TLSClientConfig: secure})
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: wrap, Timeout: 10 * time.Second}, nil
}

// addClientCertificate is for kubeconfigs that have one in the place of a token.
func addClientCertificate(secure *tls.Config, config *rest.Config) error {
	cert, key := config.CertData, config.KeyData
	var err error
	if len(cert) == 0 && config.CertFile != "" {
		if cert, err = os.ReadFile(config.CertFile); err != nil {
			return err
		}
		if key, err = os.ReadFile(config.KeyFile); err != nil {
			return err
		}
	}
	if len(cert) == 0 {
		return nil
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return fmt.Errorf("read the client certificate: %w", err)
	}
	secure.Certificates = []tls.Certificate{pair}
	return nil
}

// isLocal reports whether an address is this machine's.
func isLocal(host string) error {
	ip := net.ParseIP(host)
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return err
	}
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && ip != nil && (n.IP.Equal(ip) || ip.IsLoopback()) {
			return nil
		}
	}
	return errors.New("it is not an address of this machine, and its certificate cannot be checked: " +
		"run the agent in the host's network, or name the CA of the kubelet's certificate with --kubelet-ca")
}

// ParseKubelet reads what a kubelet answers: {"kubeletconfig": its configuration}.
func ParseKubelet(text []byte) (control.Kubelet, error) {
	var answer struct {
		Config *kubeletconfig.KubeletConfiguration `json:"kubeletconfig"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return control.Kubelet{}, fmt.Errorf("read the kubelet's configuration: %w", err)
	}
	c := answer.Config
	if c == nil || c.CPUManagerPolicy == "" {
		return control.Kubelet{}, errors.New("read the kubelet's configuration: it has no cpuManagerPolicy; is this a kubelet?")
	}
	reserved, err := cpuset.Parse(c.ReservedSystemCPUs)
	if err != nil {
		return control.Kubelet{}, fmt.Errorf("read the kubelet's reservedSystemCPUs: %w", err)
	}
	k := control.Kubelet{CPUManagerPolicy: strings.ToLower(c.CPUManagerPolicy), ReservedCPUs: reserved, CgroupRoot: c.CgroupRoot}
	k.Quota.NoQuota = c.CPUCFSQuota != nil && !*c.CPUCFSQuota
	if c.CPUCFSQuotaPeriod != nil {
		k.Quota.Period = c.CPUCFSQuotaPeriod.Duration
	}
	return k, nil
}

// parseStaticPods reads what a kubelet answers at /pods: a list of all pods that it runs. It
// writes itself where it has each pod from, over what the pod says
// (pkg/kubelet/config/config.go of Kubernetes 1.37).
func parseStaticPods(text []byte) (map[ledger.PodID]types.NamespacedName, error) {
	var list struct {
		Kind  string `json:"kind"`
		Items []struct {
			Metadata struct {
				Namespace   string            `json:"namespace"`
				Name        string            `json:"name"`
				UID         ledger.PodID      `json:"uid"`
				Annotations map[string]string `json:"annotations"`
			} `json:"metadata"`
		} `json:"items"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("read the kubelet's pods: %w", err)
	}
	if list.Kind != "PodList" {
		return nil, fmt.Errorf("read the kubelet's pods: the answer is no PodList, but %q; is this a kubelet?", list.Kind)
	}
	static := map[ledger.PodID]types.NamespacedName{}
	for i := range list.Items {
		m := &list.Items[i].Metadata
		if source := m.Annotations["kubernetes.io/config.source"]; source != "" && source != "api" {
			static[m.UID] = types.NamespacedName{Namespace: m.Namespace, Name: m.Name}
		}
	}
	return static, nil
}

// kubeletFile keeps what the kubelet said last, for an agent that starts while the
// kubelet cannot be asked.
func kubeletFile(runDir string) string { return filepath.Join(runDir, "kubelet.json") }

func keepKubelet(runDir string, k control.Kubelet) error {
	text, err := json.Marshal(k)
	if err != nil {
		return err
	}
	return atomicfile.Write(kubeletFile(runDir), text, atomicfile.Options{Perm: 0o644, Suffix: ".new"})
}

// lastKubelet returns what was kept, nil when there is nothing to be used.
func lastKubelet(runDir string) *control.Kubelet {
	text, err := os.ReadFile(kubeletFile(runDir))
	var k control.Kubelet
	if err != nil || json.Unmarshal(text, &k) != nil || k.CPUManagerPolicy == "" {
		return nil
	}
	return &k
}
