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

	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/core/cpuset"
)

// KubeletClient asks a kubelet for its configuration (GET /configz), with the agent's
// own credentials, which need "get" on nodes/configz.
type KubeletClient struct {
	Config *rest.Config
	// CAFile signs the kubelet's certificate. Without it the certificate is not
	// checked (kubelets sign their own by default), and only an address of this
	// machine is asked, so that the credentials do not leave it.
	CAFile string
}

// largestConfig bounds what is read.
const largestConfig = 1 << 20

// Get asks the kubelet at an address and port.
func (c KubeletClient) Get(ctx context.Context, host string, port int) (control.Kubelet, error) {
	k, err := c.get(ctx, host, port)
	if err != nil {
		return control.Kubelet{}, fmt.Errorf("ask the kubelet at %s for its configuration: %w", host, err)
	}
	return k, nil
}

func (c KubeletClient) get(ctx context.Context, host string, port int) (control.Kubelet, error) {
	client, err := c.client(host)
	if err != nil {
		return control.Kubelet{}, err
	}
	defer client.CloseIdleConnections()
	url := "https://" + net.JoinHostPort(host, strconv.Itoa(port)) + "/configz"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return control.Kubelet{}, err
	}
	response, err := client.Do(request)
	if err != nil {
		return control.Kubelet{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, largestConfig))
	switch {
	case err != nil:
		return control.Kubelet{}, err
	case response.StatusCode == http.StatusUnauthorized, response.StatusCode == http.StatusForbidden:
		return control.Kubelet{}, fmt.Errorf("%s: the agent's service account needs get on nodes/configz, and the kubelet "+
			"webhook authentication and authorization: %s", response.Status, strings.TrimSpace(string(text)))
	case response.StatusCode != http.StatusOK:
		return control.Kubelet{}, fmt.Errorf("%s: %s", response.Status, strings.TrimSpace(string(text)))
	}
	return ParseKubelet(text)
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

// kubeletFile keeps what the kubelet said last, for an agent that starts while the
// kubelet cannot be asked.
func kubeletFile(runDir string) string { return filepath.Join(runDir, "kubelet.json") }

func keepKubelet(runDir string, k control.Kubelet) error {
	text, err := json.Marshal(k)
	if err != nil {
		return err
	}
	name := kubeletFile(runDir)
	if err := os.WriteFile(name+".new", text, 0o644); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
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
