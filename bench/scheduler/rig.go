package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

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

// rig is a cluster of simulated nodes on which one measurement follows the other. Its
// scheduler is down in between.
type rig struct {
	options  options
	stderr   io.Writer
	cluster  *localcluster.Cluster
	client   kubernetes.Interface
	nodes    map[string]*simnode.Node // by name
	indexes  map[*topology.Machine]*placement.Index
	remove   func() error // what Stop leaves on disk
	profiled int          // measurements so far
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
		return nil, errors.Join(err, r.remove())
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
		config.Dir = filepath.Join(r.options.keep, fmt.Sprintf("nodes-%d", len(nodes)))
		config.KeepData = true
		r.remove = func() error { return nil }
		return config, nil
	}
	dir, err := os.MkdirTemp("", "pinfold-bench-")
	if err != nil {
		return config, fmt.Errorf("make a data directory: %w", err)
	}
	config.Dir = dir
	r.remove = func() error { return os.RemoveAll(dir) }
	return config, nil
}

// quieten ends what a measurement does without.
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
		return fmt.Errorf("make a client: %w", err)
	}
	r.client = client
	return nil
}

func (r *rig) stop() error {
	return errors.Join(r.cluster.Stop(), r.remove())
}
