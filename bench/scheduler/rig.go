package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/lab/localcluster"
	"pinfold.dev/pinfold/lab/simnode"
)

const namespace = metav1.NamespaceDefault

// rig is a cluster of simulated nodes for consecutive measurements. Its scheduler runs only during
// a measurement.
type rig struct {
	options  options
	stderr   io.Writer
	cluster  *localcluster.Cluster
	client   kubernetes.Interface
	nodes    map[string]*simnode.Node // by name
	indexes  map[*topology.Machine]*placement.Index
	temp     string // data directory to delete, or ""
	profiled int    // number of profiles taken
}

func startRig(ctx context.Context, o options, count int, stderr io.Writer) (*rig, error) {
	nodes := makeNodes(count)
	r := &rig{options: o, stderr: stderr, nodes: map[string]*simnode.Node{}, indexes: map[*topology.Machine]*placement.Index{}}
	for i := range nodes {
		r.nodes[nodes[i].Name] = &nodes[i]
		if r.indexes[nodes[i].Machine] == nil {
			r.indexes[nodes[i].Machine] = placement.NewIndex(nodes[i].Machine)
		}
	}
	config, err := r.clusterConfig(nodes)
	if err != nil {
		return nil, err
	}
	if r.cluster, err = localcluster.Start(ctx, config); err != nil {
		return nil, errors.Join(err, os.RemoveAll(r.temp))
	}
	if err := r.quieten(); err != nil {
		return nil, errors.Join(err, r.stop())
	}
	return r, nil
}

func (r *rig) clusterConfig(nodes []simnode.Node) (localcluster.Config, error) {
	config := localcluster.Config{
		Executable:      r.options.executable,
		SchedulerConfig: []byte(stockConfiguration),
		Install:         simnode.InstallCRD,
		Populate: func(ctx context.Context, admin *rest.Config) error {
			if err := simnode.Create(ctx, admin, nodes); err != nil {
				return err
			}
			return simnode.WaitReady(ctx, admin, nodes)
		},
	}
	if r.options.keep != "" {
		config.Dir, config.KeepData = filepath.Join(r.options.keep, fmt.Sprintf("nodes-%d", len(nodes))), true
		return config, nil
	}
	var err error
	if r.temp, err = os.MkdirTemp("", "pinfold-bench-"); err != nil {
		return config, fmt.Errorf("create a data directory: %w", err)
	}
	config.Dir = r.temp
	return config, nil
}

// quieten stops the components that a measurement does not need, and creates the client.
func (r *rig) quieten() error {
	idle := []string{localcluster.Scheduler, localcluster.ControllerManager}
	if !r.options.kubelets {
		idle = append(idle, localcluster.KWOK)
	}
	for _, component := range idle {
		if err := r.cluster.StopComponent(component); err != nil {
			return err
		}
	}
	config := r.cluster.RESTConfig()
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("create a client: %w", err)
	}
	r.client = client
	return nil
}

func (r *rig) stop() error {
	return errors.Join(r.cluster.Stop(), os.RemoveAll(r.temp)) // RemoveAll("") does nothing
}

// startScheduler returns the scheduler's process id when it is ready. The scheduler must be stopped
// even after an error.
func (r *rig) startScheduler(ctx context.Context, v variant) (pid int, err error) {
	if err := r.cluster.ConfigureScheduler([]byte(v.config)); err != nil {
		return 0, err
	}
	err = r.cluster.StartComponent(ctx, localcluster.Scheduler)
	return r.cluster.PID(localcluster.Scheduler), err
}

// explain returns the scheduler's message about one of the pods that are not bound.
func (r *rig) explain(ctx context.Context) error {
	pods, err := r.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName="})
	if err != nil || len(pods.Items) == 0 {
		return err
	}
	reason := "the scheduler has not tried it"
	for _, condition := range pods.Items[0].Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Message != "" {
			reason = condition.Message
		}
	}
	return fmt.Errorf("%d pods are not bound, %s first: %s", len(pods.Items), pods.Items[0].Name, reason)
}
