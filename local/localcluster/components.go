package localcluster

import (
	"fmt"
	"strings"

	cliflag "k8s.io/component-base/cli/flag"
	nodefast "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	podfast "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
)

// The names of the components, as arguments of the multi-call executable, in logs and in the state.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	KWOK              = "kwok"
	// Agents are those of simulated nodes.
	Agents = "pinfold-agents"
)

// Names of configuration files in config/.
const (
	kwokConfigName      = "kwok.yaml"
	schedulerConfigName = "scheduler.yaml"
)

// SimulatedAnnotation with SimulatedValue marks the nodes whose kubelet KWOK simulates.
const (
	SimulatedAnnotation = "kwok.x-k8s.io/node"
	SimulatedValue      = "fake"
)

// kwokOptions raises KWOK's workers from 4 to 16, so that 1,000 nodes become ready within seconds,
// and leaves its server disabled, because simulated pods have no logs.
const kwokOptions = `apiVersion: config.kwok.x-k8s.io/v1alpha1
kind: KwokConfiguration
options:
  cidr: 10.244.0.0/16
  manageNodesWithAnnotationSelector: ` + SimulatedAnnotation + "=" + SimulatedValue + `
  nodeLeaseDurationSeconds: 0
  nodePlayStageParallelism: 16
  podPlayStageParallelism: 16
`

// kwokConfig returns KWOK's configuration: its options, and KWOK's own stages of simulated nodes
// and pods. A node is ready at once, a bound pod runs at once, the pod of a Job succeeds at once,
// and a deleted pod disappears at once.
func kwokConfig() []byte {
	return []byte(strings.Join([]string{
		kwokOptions,
		nodefast.DefaultNodeInit,
		podfast.DefaultPodReady,
		podfast.DefaultPodComplete,
		podfast.DefaultPodDelete,
	}, "\n---\n"))
}

func kwokFlags(l layout) []string {
	return []string{"--kubeconfig=" + l.kubeconfig(KWOK), "--config=" + l.path("config", kwokConfigName)}
}

func agentsFlags(l layout) []string { return []string{"--kubeconfig=" + l.kubeconfig(Agents)} }

func (c *Cluster) apiServerFlags() []string {
	l := c.layout
	flags := append(c.servingFlags(APIServer),
		c.emulation(),
		c.gates(),
		"--advertise-address=127.0.0.1",
		"--etcd-servers=unix://"+EtcdSocket, // relative to the data directory
		"--authorization-mode=Node,RBAC",
		"--anonymous-auth=false",
		"--allow-privileged", // as installers of clusters do
		"--client-ca-file="+l.path("pki", "ca.crt"),
		// There is no front proxy, and the key of this authority is not kept, so nothing is ever
		// signed with it. Without the authority, the other components log an error every few seconds.
		"--requestheader-client-ca-file="+l.path("pki", "front-proxy-ca.crt"),
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+l.path("pki", "service-account.key"), // contains the public key
		"--service-account-signing-key-file="+l.path("pki", "service-account.key"),
		"--service-cluster-ip-range=10.96.0.0/16",
		// The endpoint of the service "kubernetes" is not needed, because pods of simulated nodes do
		// not run and a real node has no service addresses. It could not be a loopback address either.
		"--endpoint-reconciler-type=none",
	)
	if c.node != nil {
		flags = append(flags, nodeFlags(l)...)
	}
	return flags
}

func (c *Cluster) controllerManagerFlags() []string {
	l := c.layout
	return append(c.delegatingFlags(ControllerManager),
		c.emulation(),
		c.gates(),
		"--kubeconfig="+l.kubeconfig(ControllerManager),
		"--use-service-account-credentials",
		"--service-account-private-key-file="+l.path("pki", "service-account.key"),
		"--root-ca-file="+l.path("pki", "ca.crt"),
		"--leader-elect=false",
		"--flex-volume-plugin-dir="+l.path("config", "volume-plugins"), // else it creates a directory in /usr
		// Simulated nodes have no heartbeats (see kwokOptions) and never fail. The components of a real
		// node are restarted.
		"--node-monitor-grace-period=87600h",
		// This controller tells kubelets how long to cache secrets, and annotates every node again each
		// time that their number passes 100, 500 or 1,000.
		"--controllers=*,-ttl-controller",
		// With the default of 20 requests per second, it would take most of a minute to make 1,000 new
		// nodes ready.
		"--kube-api-qps=1000",
		"--kube-api-burst=2000",
	)
}

func (c *Cluster) schedulerFlags() []string {
	return append(c.delegatingFlags(Scheduler), c.gates(), "--config="+c.layout.path("config", schedulerConfigName))
}

// emulation is the flag of a component that emulates a version. The scheduler asks the API server.
func (c *Cluster) emulation() string { return "--emulated-version=" + c.config.Kubernetes }

// gates is the flag of a component of Kubernetes for Config.FeatureGates.
func (c *Cluster) gates() string {
	return "--feature-gates=" + cliflag.NewMapStringBool(&c.config.FeatureGates).String()
}

// servingFlags are the flags with which a component of Kubernetes listens on its reserved port.
func (c *Cluster) servingFlags(component string) []string {
	certificate, key := c.layout.certificate(component)
	return []string{
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", c.ports[component].Number),
		"--permit-port-sharing", // see ReservedPort
		"--tls-cert-file=" + certificate,
		"--tls-private-key-file=" + key,
	}
}

// delegatingFlags are the flags of a component that serves, and asks the API server who may read
// its metrics.
func (c *Cluster) delegatingFlags(component string) []string {
	return append(c.servingFlags(component),
		"--authentication-kubeconfig="+c.layout.kubeconfig(component),
		"--authorization-kubeconfig="+c.layout.kubeconfig(component),
		"--client-ca-file="+c.layout.path("pki", "ca.crt"),
	)
}
