package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/prometheus/procfs"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"pinfold.dev/pinfold/local/localcluster"
	"pinfold.dev/pinfold/local/simnode"
)

const namespace = metav1.NamespaceDefault

// rig is a cluster of simulated nodes for consecutive measurements. Its scheduler runs only during
// a measurement.
type rig struct {
	options options
	nodes   int
	stderr  io.Writer
	cluster *localcluster.Cluster
	client  kubernetes.Interface
	dir     string // of its data, deleted at the end
}

func startRig(ctx context.Context, o options, count int, stderr io.Writer) (*rig, error) {
	r := &rig{options: o, nodes: count, stderr: stderr}
	nodes := makeNodes(count)
	var err error
	if r.dir, err = os.MkdirTemp("", "pinfold-bench-"); err != nil {
		return nil, fmt.Errorf("create a data directory: %w", err)
	}
	r.cluster, err = localcluster.Start(ctx, localcluster.Config{
		Dir:             r.dir,
		Executable:      o.executable,
		SchedulerConfig: []byte(stockConfiguration),
		Install:         simnode.InstallCRD,
		Populate: func(ctx context.Context, admin *rest.Config) error {
			if err := simnode.Create(ctx, admin, nodes); err != nil {
				return err
			}
			return simnode.WaitReady(ctx, admin, nodes)
		},
	})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(r.dir))
	}
	if err := r.quieten(); err != nil {
		return nil, errors.Join(err, r.stop())
	}
	return r, nil
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
	return errors.Join(r.cluster.Stop(), os.RemoveAll(r.dir))
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

// usage is what a process has used.
type usage struct {
	cpu       time.Duration // system and user
	now, peak uint64        // resident memory and its maximum, in bytes
}

func usageOf(pid int) (u usage, err error) {
	var stat procfs.ProcStat
	var status procfs.ProcStatus
	process, err := procfs.NewProc(pid)
	if err == nil {
		stat, err = process.Stat()
	}
	if err == nil {
		status, err = process.NewStatus()
	}
	if err != nil {
		return u, fmt.Errorf("read what the scheduler uses: %w", err)
	}
	return usage{time.Duration(stat.CPUTime() * float64(time.Second)), status.VmRSS, status.VmHWM}, nil
}
