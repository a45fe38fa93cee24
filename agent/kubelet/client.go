// Package kubelet asks the kubelet of a node for its configuration and its static pods.
//
//	client := kubelet.Client{Client: client, NodeName: "n1", Config: config}
//	k, err := client.Configuration(ctx)
//
// What answers may be another program, and the agent's token lets it read pods. So the token is
// sent only if the answering program has proven that it is the kubelet: see [Client].
package kubelet

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

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
)

// Client is a client of the kubelet of one node. It uses the agent's own credentials, which
// need the verb get on nodes/configz and nodes/pods.
type Client struct {
	// Client reads the kubelet's address from the Node object named NodeName.
	Client   kubernetes.Interface
	NodeName string
	// Config has the agent's credentials.
	Config *rest.Config
	// CAFile has the certificates that sign the kubelet's. Without it, they may be those that sign
	// the API server's. Kubelets sign their own by default: then the other end of the connection
	// must be a socket of root on this machine, and none of a pod (see checkPeer).
	CAFile string
	// Root is the directory at which the machine's root directory is mounted; "" for "/".
	Root string
}

// The maximum sizes of the kubelet's answers, in bytes.
const (
	maxConfig = 1 << 20
	maxPods   = 64 << 20
)

// Configuration returns the kubelet's configuration (GET /configz).
func (c Client) Configuration(ctx context.Context) (control.Kubelet, error) {
	return ask(ctx, c, "configz", maxConfig, parseKubelet)
}

// StaticPods returns the static pods that the kubelet runs, by the kubelet's ids (GET /pods).
func (c Client) StaticPods(ctx context.Context) (map[ledger.PodID]types.NamespacedName, error) {
	return ask(ctx, c, "pods", maxPods, parseStaticPods)
}

func ask[T any](ctx context.Context, c Client, resource string, limit int64, parse func([]byte) (T, error)) (answer T, err error) {
	host, port, err := c.address(ctx)
	if err != nil {
		return answer, err
	}
	text, err := c.get(ctx, host, port, resource, limit)
	if err == nil {
		answer, err = parse(text)
	}
	if err != nil {
		return answer, fmt.Errorf("get /%s of the kubelet at %s: %w", resource, host, err)
	}
	return answer, nil
}

// address returns the address of the kubelet in the Node object.
func (c Client) address(ctx context.Context) (host string, port int, err error) {
	node, err := c.Client.CoreV1().Nodes().Get(ctx, c.NodeName, metav1.GetOptions{})
	if err != nil {
		return "", 0, fmt.Errorf("find the kubelet: get node %s: %w", c.NodeName, err)
	}
	port = int(node.Status.DaemonEndpoints.KubeletEndpoint.Port)
	for _, address := range node.Status.Addresses {
		if address.Type == corev1.NodeInternalIP && net.ParseIP(address.Address) != nil && port != 0 {
			return address.Address, port, nil
		}
	}
	return "", 0, fmt.Errorf("find the kubelet: node %s has no internal IP address and kubelet port (%d): is its kubelet running?", c.NodeName, port)
}

// get gets /resource, which needs the permission for nodes/resource. It reads at most limit bytes.
func (c Client) get(ctx context.Context, host string, port int, resource string, limit int64) ([]byte, error) {
	client, err := c.httpClient(host)
	if err != nil {
		return nil, err
	}
	url := "https://" + net.JoinHostPort(host, strconv.Itoa(port)) + "/" + resource
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, limit))
	switch {
	case err != nil:
		return nil, err
	case response.StatusCode == http.StatusUnauthorized, response.StatusCode == http.StatusForbidden:
		return nil, fmt.Errorf("%s: the agent's service account needs get on nodes/%s, and the kubelet "+
			"webhook authentication and authorization: %s", response.Status, resource, strings.TrimSpace(string(text)))
	case response.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s: %s", response.Status, strings.TrimSpace(string(text)))
	}
	return text, nil
}

// httpClient returns a client with the agent's credentials. Requests are rare, so each has a new
// connection, and dial decides for each whether it may carry the credentials. There is no proxy.
func (c Client) httpClient(host string) (*http.Client, error) {
	secure, err := rest.TLSConfigFor(c.Config)
	if err != nil {
		return nil, err
	}
	if secure == nil {
		secure = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, err
		}
		secure.RootCAs = x509.NewCertPool()
		if !secure.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no certificate", c.CAFile)
		}
	} else if secure.RootCAs == nil {
		if err := checkLocal(host); err != nil {
			return nil, err
		}
	}
	secure.ServerName, secure.InsecureSkipVerify = "", true // the API server's; dial verifies
	transport, err := rest.HTTPWrappersForConfig(c.Config, &http.Transport{DisableKeepAlives: true,
		DialTLSContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return c.dial(ctx, network, address, secure)
		}})
	if err != nil {
		return nil, err
	}
	// The wrappers would send the credentials to wherever the kubelet redirects to.
	noRedirect := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &http.Client{Transport: transport, CheckRedirect: noRedirect, Timeout: 10 * time.Second}, nil
}

// ErrUntrusted reports that what answers may be another program.
var ErrUntrusted = errors.New("what answers may not be the kubelet, so it gets no credentials")

// dial connects to the kubelet. It returns an error unless the peer is the kubelet, as described at
// CAFile.
func (c Client) dial(ctx context.Context, network, address string, secure *tls.Config) (net.Conn, error) {
	dialer := tls.Dialer{Config: secure}
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	unverified := c.verify(conn.(*tls.Conn).ConnectionState().PeerCertificates, secure.RootCAs, address)
	switch {
	case unverified == nil:
		return conn, nil
	case c.CAFile != "":
		err = unverified
	default:
		if err = checkPeer(conn, filepath.Join("/", c.Root, "sys/fs/cgroup")); err == nil {
			return conn, nil
		}
		err = fmt.Errorf("%w: %w, and %w. If it is the kubelet, name the CA of its certificate with --kubelet-ca", ErrUntrusted, unverified, err)
	}
	conn.Close()
	return nil, err
}

// verify returns an error unless roots have signed a server's certificate for the address or for
// the name of the node.
func (c Client) verify(chain []*x509.Certificate, roots *x509.CertPool, address string) (err error) {
	if roots == nil || len(chain) == 0 {
		return errors.New("no CA is known that could have signed its certificate")
	}
	options := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool()}
	for _, certificate := range chain[1:] {
		options.Intermediates.AddCert(certificate)
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	for _, options.DNSName = range []string{c.NodeName, host} {
		if _, err = chain[0].Verify(options); err == nil {
			return nil
		}
	}
	return err
}

// checkLocal returns an error if the address is not one of this machine.
func checkLocal(host string) error {
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
	return errors.New("it is not an address of this machine, and its certificate cannot be verified: " +
		"run the agent in the host's network, or name the CA of the kubelet's certificate with --kubelet-ca")
}

// parseKubelet parses the kubelet's answer to GET /configz.
func parseKubelet(text []byte) (control.Kubelet, error) {
	var answer struct {
		Config *kubeletconfig.KubeletConfiguration `json:"kubeletconfig"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return control.Kubelet{}, errors.New("read the kubelet's configuration: the answer is not a configuration in JSON; is this a kubelet?")
	}
	c := answer.Config
	if c == nil || c.CPUManagerPolicy == "" {
		return control.Kubelet{}, errors.New("read the kubelet's configuration: it has no cpuManagerPolicy; is this a kubelet?")
	}
	reserved, err := cpuset.Parse(c.ReservedSystemCPUs)
	if err != nil {
		return control.Kubelet{}, fmt.Errorf("read the kubelet's reservedSystemCPUs: %w", err)
	}
	k := control.Kubelet{CPUManagerPolicy: strings.ToLower(c.CPUManagerPolicy), ReservedCPUs: reserved, CgroupRoot: c.CgroupRoot,
		NoPodGroups: c.CgroupsPerQOS != nil && !*c.CgroupsPerQOS}
	k.Quota.NoQuota = c.CPUCFSQuota != nil && !*c.CPUCFSQuota
	if c.CPUCFSQuotaPeriod != nil {
		k.Quota.Period = c.CPUCFSQuotaPeriod.Duration
	}
	return k, nil
}

// parseStaticPods parses the kubelet's answer to GET /pods, the list of all pods that it runs. The
// kubelet overwrites the annotation that names the source of each pod (pkg/kubelet/config/config.go
// of Kubernetes 1.37).
func parseStaticPods(text []byte) (map[ledger.PodID]types.NamespacedName, error) {
	var list metav1.PartialObjectMetadataList
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, errors.New("read the kubelet's pods: the answer is not a list in JSON; is this a kubelet?")
	}
	if list.Kind != "PodList" {
		return nil, fmt.Errorf("read the kubelet's pods: got a %q, want a PodList; is this a kubelet?", list.Kind)
	}
	static := map[ledger.PodID]types.NamespacedName{}
	for i := range list.Items {
		m := &list.Items[i]
		if source := m.Annotations["kubernetes.io/config.source"]; source != "" && source != "api" {
			static[ledger.PodID(m.UID)] = types.NamespacedName{Namespace: m.Namespace, Name: m.Name}
		}
	}
	return static, nil
}
