package simnode

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"pinfold.dev/pinfold/deploy"
	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/kube/nodetopology/apiclient"
	"pinfold.dev/pinfold/local/localnode"
)

// parallelCreates keeps the API server busy. More requests would only wait for each other.
const parallelCreates = 32

// InstallCRD installs the definition of NodeTopology and waits until the API serves it.
func InstallCRD(ctx context.Context, config *rest.Config) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	topologies, err := apiclient.New(config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	definition, err := localnode.Decode(deploy.NodeTopology)
	if err != nil {
		return err
	}
	if err := localnode.CreateAll(ctx, client, definition); err != nil {
		return err
	}
	return localnode.AwaitExists(ctx, "the list of NodeTopologies", func() error {
		_, err := topologies.List(ctx, metav1.ListOptions{Limit: 1})
		return err
	})
}

// Create creates the nodes and their topologies, which are deleted with their nodes. The definition
// of NodeTopology must be installed.
func Create(ctx context.Context, config *rest.Config, nodes []Node) error {
	topologies, err := apiclient.New(config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	client, err := newClient(config)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallelCreates)
	for _, node := range nodes {
		group.Go(func() error {
			made, err := localnode.Create(ctx, client.CoreV1().Nodes(), node.Object())
			if err != nil {
				return fmt.Errorf("create node %s: %w", node.Name, err)
			}
			object, err := node.Topology(made.UID)
			if err != nil {
				return err
			}
			if _, err := localnode.Create(ctx, topologies, object); err != nil {
				return fmt.Errorf("create topology of node %s: %w", node.Name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// WaitReady waits until pods can be scheduled to all of the nodes.
func WaitReady(ctx context.Context, config *rest.Config, nodes []Node) error {
	client, err := newClient(config)
	if err != nil {
		return err
	}
	names := make(map[string]bool, len(nodes))
	for _, node := range nodes {
		names[node.Name] = true
	}
	return sleep.Until(ctx, 100*time.Millisecond, func() (string, error) {
		var list *corev1.NodeList
		err := localnode.Answered(ctx, func() (err error) {
			// Version 0 is served from the API server's cache.
			list, err = client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
			return err
		})
		if err != nil {
			return "", fmt.Errorf("list nodes: %w", err)
		}
		ready := 0
		for i := range list.Items {
			if names[list.Items[i].Name] && localnode.NotReady(&list.Items[i]) == "" {
				ready++
			}
		}
		if ready < len(names) {
			return fmt.Sprintf("%d of %d simulated nodes are ready", ready, len(names)), nil
		}
		return "", nil
	})
}

// newClient returns a client for built-in resources that uses protobuf, which is smaller than JSON.
func newClient(config *rest.Config) (*kubernetes.Clientset, error) {
	protobuf := rest.CopyConfig(config)
	protobuf.ContentType = runtime.ContentTypeProtobuf
	protobuf.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	client, err := kubernetes.NewForConfig(protobuf)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	return client, nil
}
