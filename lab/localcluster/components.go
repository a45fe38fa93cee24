package localcluster

import (
	"fmt"
	"slices"
)

// The components, by the names that the multi-call executable, the logs and
// the state know them by.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	KWOK              = "kwok"
)

// Names lists the components in the order of their start.
func Names() []string {
	return []string{Etcd, APIServer, ControllerManager, KWOK, Scheduler}
}

func etcdFlags(l layout) []string {
	return []string{"--config-file=" + l.path("config", etcdConfigName)}
}

func (c *Cluster) apiServerFlags() []string {
	flags := apiServerFlags(c.layout, c.ports[APIServer].number)
	if c.node != nil {
		flags = append(flags, nodeFlags(c.layout)...)
	}
	return flags
}

func apiServerFlags(l layout, port int) []string {
	return slices.Concat(servingFlags(l, APIServer, port), []string{
		"--advertise-address=127.0.0.1",
		"--etcd-servers=" + etcdURL,
		"--authorization-mode=Node,RBAC",
		"--anonymous-auth=false",
		"--client-ca-file=" + l.path("pki", "ca.crt"),
		// There is no front proxy: nothing is ever signed with this authority's
		// key, which is not even kept. Without one, the other components log an
		// error every few seconds.
		"--requestheader-client-ca-file=" + l.path("pki", "front-proxy-ca.crt"),
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + l.path("pki", "service-account.pub"),
		"--service-account-signing-key-file=" + l.path("pki", "service-account.key"),
		"--service-cluster-ip-range=10.96.0.0/16",
		// No pod of a simulated node runs, and on a real one services have no
		// addresses, so nobody needs the endpoint of the service "kubernetes"; and a
		// loopback address is not allowed in one.
		"--endpoint-reconciler-type=none",
	})
}

func controllerManagerFlags(l layout, port int) []string {
	return slices.Concat(servingFlags(l, ControllerManager, port), delegationFlags(l, ControllerManager), []string{
		"--kubeconfig=" + l.kubeconfig(ControllerManager),
		"--use-service-account-credentials",
		"--service-account-private-key-file=" + l.path("pki", "service-account.key"),
		"--root-ca-file=" + l.path("pki", "ca.crt"),
		"--leader-elect=false",
		// Nothing heartbeats for the simulated nodes (see kwok.go), and none of
		// them ever dies. A real one that does is started again.
		"--node-monitor-grace-period=87600h",
		// Hints to kubelets how long to cache secrets: annotates every node again
		// each time that their number passes 100, 500 or 1,000.
		"--controllers=*,-ttl-controller",
		// The default of 20 requests a second would take most of a minute to
		// notice that 1,000 new nodes are ready.
		"--kube-api-qps=1000",
		"--kube-api-burst=2000",
	})
}

func schedulerFlags(l layout, port int) []string {
	return slices.Concat(servingFlags(l, Scheduler, port), delegationFlags(l, Scheduler), []string{
		"--config=" + l.path("config", schedulerConfigName),
	})
}

func kwokFlags(l layout) []string {
	return []string{
		"--kubeconfig=" + l.kubeconfig(KWOK),
		"--config=" + l.path("config", kwokConfigName),
	}
}

// servingFlags makes a component of Kubernetes listen on a reserved port.
func servingFlags(l layout, component string, port int) []string {
	certificate, key := l.certificate(component)
	return []string{
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", port),
		"--permit-port-sharing", // see ports.go
		"--tls-cert-file=" + certificate,
		"--tls-private-key-file=" + key,
	}
}

// delegationFlags lets a component ask the API server who may read its
// metrics.
func delegationFlags(l layout, component string) []string {
	return []string{
		"--authentication-kubeconfig=" + l.kubeconfig(component),
		"--authorization-kubeconfig=" + l.kubeconfig(component),
		"--client-ca-file=" + l.path("pki", "ca.crt"),
	}
}
