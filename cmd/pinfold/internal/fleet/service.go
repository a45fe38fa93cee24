package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"pinfold.dev/pinfold/cmd/internal/frame"
	"pinfold.dev/pinfold/cmd/pinfold/internal/cluster"
	"pinfold.dev/pinfold/report"
)

// service is a server in the cluster, which is reached through the API server.
type service struct {
	cluster.Connection
	namespace, name, port, path string // port is a name or number, "" if not given
	host                        string // of the API server
}

func (s *service) String() string { return s.namespace + "/" + s.name }

// parse parses NAMESPACE/NAME[:PORT][/PATH].
func (s *service) parse(text string) error {
	var name string
	var withPort bool
	s.namespace, name, _ = strings.Cut(text, "/")
	name, s.path, _ = strings.Cut(name, "/")
	s.name, s.port, withPort = strings.Cut(name, ":")
	if !report.IsLabel(s.namespace) || !report.IsLabel(s.name) || withPort && !report.IsLabel(s.port) {
		return frame.Usagef("--prometheus-service %s: want NAMESPACE/NAME or NAMESPACE/NAME:PORT, such as monitoring/prometheus-k8s", text)
	}
	return nil
}

// connect returns the URL of the service, below that of the API server, and what sends requests to
// it.
func (s *service) connect(ctx context.Context) (string, http.RoundTripper, error) {
	core, err := s.Core()
	if err != nil {
		return "", nil, err
	}
	s.host = core.Config.Host
	name, err := s.find(ctx, core.Client)
	if err != nil {
		return "", nil, cluster.Explain(ctx, s.host, err)
	}
	round, err := rest.TransportFor(core.Config)
	if err != nil {
		return "", nil, err
	}
	at := core.Client.Get().Namespace(s.namespace).Resource("services").Name(name).SubResource("proxy").Suffix(s.path).URL()
	return at.String(), round, nil
}

// find returns the name of the service for the API server's proxy, with its scheme and port. Without
// permission to read the service it is the given one.
func (s *service) find(ctx context.Context, client rest.Interface) (string, error) {
	var found corev1.Service
	err := client.Get().Namespace(s.namespace).Resource("services").Name(s.name).Do(ctx).Into(&found)
	switch {
	case apierrors.IsForbidden(err) && s.port != "":
		return s.name + ":" + s.port, nil
	case apierrors.IsForbidden(err):
		return "", fmt.Errorf("you may not read service %v: name the port as well, as in --prometheus-service %[1]v:9090, or get the verb get of services in namespace %s (%w)", s, s.namespace, err)
	case apierrors.IsNotFound(err):
		return "", fmt.Errorf("there is no service %v: %s", s, s.others(ctx, client))
	case err != nil:
		return "", err
	}
	port, err := choosePort(found.Spec.Ports, s.port)
	if err != nil {
		return "", fmt.Errorf("service %v %w", s, err)
	}
	scheme := ""
	if strings.HasPrefix(port.Name, "https") || port.Port == 443 || port.AppProtocol != nil && *port.AppProtocol == "https" {
		scheme = "https:"
	}
	return fmt.Sprintf("%s%s:%d", scheme, s.name, port.Port), nil
}

// choosePort returns the wanted port, or else the only one, or the one that servers of metrics have.
func choosePort(ports []corev1.ServicePort, wanted string) (*corev1.ServicePort, error) {
	if len(ports) == 1 && wanted == "" {
		return &ports[0], nil
	}
	var names []string
	for i := range ports {
		p := &ports[i]
		if number := strconv.Itoa(int(p.Port)); wanted == p.Name || wanted == number {
			return p, nil
		}
		names = append(names, strings.TrimPrefix(fmt.Sprintf("%s (%d)", p.Name, p.Port), " "))
	}
	i := slices.IndexFunc(ports, isWeb)
	switch all := strings.Join(names, ", "); {
	case wanted == "" && i >= 0:
		return &ports[i], nil
	case wanted == "":
		return nil, fmt.Errorf("has the ports %s: name one, as in NAMESPACE/NAME:PORT", cmp.Or(all, "none"))
	default:
		return nil, fmt.Errorf("has no port %s: it has %s", wanted, cmp.Or(all, "none"))
	}
}

func isWeb(p corev1.ServicePort) bool {
	return slices.Contains([]string{"web", "http", "http-web"}, p.Name) || p.Port == 9090
}

// others says which services of the namespace look like a Prometheus.
func (s *service) others(ctx context.Context, client rest.Interface) string {
	var list corev1.ServiceList
	if err := client.Get().Namespace(s.namespace).Resource("services").Do(ctx).Into(&list); err != nil {
		return "is its name right?"
	}
	var names []string
	for _, other := range list.Items {
		if strings.Contains(other.Name+other.Labels["app.kubernetes.io/name"], "prometheus") &&
			slices.ContainsFunc(other.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == 9090 || p.Port == 80 }) {
			names = append(names, s.namespace+"/"+other.Name)
		}
	}
	if len(names) == 0 {
		return fmt.Sprintf("no service of namespace %s looks like a Prometheus; 'kubectl get services --all-namespaces' lists all", s.namespace)
	}
	return "did you mean " + strings.Join(names, " or ") + "?"
}

// explain says what an error answer means that is not the server's, but that of the API server on
// the way. It returns nil for others.
func (s *service) explain(answer *promv1.Error) error {
	var status metav1.Status
	_ = json.Unmarshal([]byte(answer.Detail), &status) // others have another kind, or none
	if status.Kind != "Status" {
		return nil
	}
	err := apierrors.FromObject(&status)
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("you may not reach service %v through the API server: it takes the verb get of services/proxy in namespace %s (%w)", s, s.namespace, err)
	case strings.Contains(status.Message, "no endpoints"):
		return fmt.Errorf("service %v has no ready pod: 'kubectl -n %s get pods' shows why (%w)", s, s.namespace, err)
	}
	return fmt.Errorf("the API server %s does not reach service %v: %w", s.host, s, err)
}
