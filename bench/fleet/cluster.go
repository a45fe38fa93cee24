package main

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"pinfold.dev/pinfold/internal/command"
	"pinfold.dev/pinfold/kube/admission"
	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/kube/scheduler"
	"pinfold.dev/pinfold/lab/localcluster"
	"pinfold.dev/pinfold/lab/simnode"
)

// cluster is a control plane with nodes that nothing but agents run on.
type cluster struct {
	*localcluster.Cluster
	dir     string // of its data, deleted at the end
	client  kubernetes.Interface
	kubelet *httptest.Server // of all nodes
	nodes   []*corev1.Node
	tokens  []string // of the agents, by node
}

func startCluster(ctx context.Context, o options) (c *cluster, err error) {
	c = &cluster{nodes: make([]*corev1.Node, o.nodes), tokens: make([]string, o.nodes)}
	if c.dir, err = os.MkdirTemp("", "pinfold-fleet-"); err != nil {
		return nil, fmt.Errorf("create a data directory: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.stop())
		}
	}()
	if c.Cluster, err = localcluster.Start(ctx, localcluster.Config{Dir: filepath.Join(c.dir, "cluster"), Executable: o.executable,
		SchedulerConfig: []byte(scheduler.DefaultConfiguration), Install: simnode.InstallCRD}); err != nil {
		return nil, err
	}
	for _, component := range []string{localcluster.Scheduler, localcluster.ControllerManager, localcluster.KWOK} {
		if err := c.StopComponent(component); err != nil {
			return nil, err
		}
	}
	config := c.RESTConfig()
	config.ContentType, config.QPS = runtime.ContentTypeProtobuf, -1
	if c.client, err = kubernetes.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	if err := admission.Install(ctx, c.client); err != nil {
		return nil, err
	}
	if err := c.grant(ctx); err != nil {
		return nil, fmt.Errorf("give the agents their rights: %w", err)
	}
	if err := c.serveKubelets(); err != nil {
		return nil, err
	}
	var work errgroup.Group
	work.SetLimit(16)
	for i := range o.nodes {
		work.Go(func() error { return c.createNode(ctx, i) })
	}
	if err := work.Wait(); err != nil {
		return nil, fmt.Errorf("create the nodes: %w", err)
	}
	return c, nil
}

func (c *cluster) stop() error {
	var err error
	if c.Cluster != nil {
		err = c.Stop()
	}
	if c.kubelet != nil {
		c.kubelet.Close()
	}
	return errors.Join(err, os.RemoveAll(c.dir))
}

// grant creates the agents' service account, and gives it the roles that the local cluster has
// for agents with certificates.
func (c *cluster) grant(ctx context.Context) error {
	const role = "pinfold:local-agent"
	name := metav1.ObjectMeta{Name: admission.AgentAccount, Namespace: nodetopology.LeaseNamespace}
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: name.Name, Namespace: name.Namespace}}
	_, err := c.client.CoreV1().ServiceAccounts(name.Namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: name}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if _, err = c.client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name.Name}, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	_, err = c.client.RbacV1().RoleBindings(name.Namespace).Create(ctx, &rbacv1.RoleBinding{ObjectMeta: name, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role}}, metav1.CreateOptions{})
	return err
}

// serveKubelets answers as the kubelets of all nodes.
func (c *cluster) serveKubelets() error {
	c.kubelet = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/configz" {
			http.NotFound(w, r)
			return
		}
		_, _ = fmt.Fprint(w, `{"kubeletconfig":{"cpuManagerPolicy":"none","cpuCFSQuota":true,"cpuCFSQuotaPeriod":"100ms"}}`)
	}))
	c.kubelet.StartTLS()
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.kubelet.Certificate().Raw})
	return os.WriteFile(c.kubeletCA(), certificate, 0o600)
}

func (c *cluster) kubeletCA() string { return filepath.Join(c.dir, "kubelet-ca.pem") }

// createNode creates a node, and a token for its agent.
func (c *cluster) createNode(ctx context.Context, i int) (err error) {
	resources := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("104"), corev1.ResourceMemory: resource.MustParse("384Gi"), corev1.ResourcePods: resource.MustParse("110")}
	kubelet := c.kubelet.Listener.Addr().(*net.TCPAddr)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", i)}, Status: corev1.NodeStatus{
		Capacity: resources, Allocatable: resources,
		Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: kubelet.IP.String()}},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(kubelet.Port)}},
	}}
	for image := range 50 { // as many as a kubelet reports
		node.Status.Images = append(node.Status.Images, corev1.ContainerImage{SizeBytes: 50 << 20,
			Names: []string{fmt.Sprintf("registry.example.com/team/service-%d@sha256:%064x", image, image), fmt.Sprintf("registry.example.com/team/service-%d:v1.2.3", image)}})
	}
	if c.nodes[i], err = c.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return err
	}
	token, err := c.client.CoreV1().ServiceAccounts(nodetopology.LeaseNamespace).CreateToken(ctx, admission.AgentAccount, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: c.nodes[i].UID}}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	c.tokens[i] = token.Status.Token
	return nil
}

// agentConfig returns the configuration of an agent's client.
func (c *cluster) agentConfig(i int) *rest.Config {
	config := rest.AnonymousClientConfig(c.RESTConfig())
	config.BearerToken = c.tokens[i]
	return config
}

// used returns what the agents have asked, and what that has cost.
func (c *cluster) used(f *fleet) (u usage, err error) {
	u = f.counts.get()
	apiServer, err := command.UsageOf(c.PID(localcluster.APIServer))
	if err != nil {
		return u, err
	}
	etcd, err := command.UsageOf(c.PID(localcluster.Etcd))
	u.apiServer, u.memory, u.etcd = apiServer.CPU, apiServer.Now, etcd.CPU
	return u, err
}
