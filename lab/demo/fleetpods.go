package demo

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/lab/localnode"
)

// app is a workload of a fleet: a web server that gets requests, or a computation of pi that never
// ends.
type app struct {
	namespace, name string
	kind            string // Deployment, StatefulSet or DaemonSet
	replicas        int
	limit, request  float64 // in CPUs; 0: there is no limit
	// Web servers get some requests at once, each of an amount of CPU time, after random times of this
	// mean.
	requests int
	cpu      time.Duration
	every    time.Duration
	threads  int // of pi; 0: it is a web server
}

// fleet returns the workloads. Together they use about one CPU, and request 1.5.
func fleet() []app {
	const ms, s = time.Millisecond, time.Second
	return []app{ // in the order of the fields: at last, requests at once, CPU time of each, mean time, threads
		{"shop", "web", "Deployment", 3, .5, .1, 4, 30 * ms, s, 0},
		{"shop", "images", "Deployment", 1, .4, .2, 6, 30 * ms, 3 * s, 0},
		{"shop", "checkout", "Deployment", 1, .6, .3, 1, 10 * ms, 100 * ms, 0},
		{"shop", "search", "Deployment", 2, 0, .1, 2, 20 * ms, s, 0},
		{"shop", "sessions", "StatefulSet", 1, .3, .06, 1, 5 * ms, 100 * ms, 0},
		{"shop", "admin", "Deployment", 1, .5, .1, 0, 0, 0, 0},
		{"batch", "report", "Deployment", 1, .2, .2, 0, 0, 0, 1},
		{"batch", "thumbnails", "Deployment", 1, .15, .1, 0, 0, 0, 2},
		{"batch", "logs", "DaemonSet", 1, .1, .05, 1, 5 * ms, 500 * ms, 0},
	}
}

// does says what a workload does.
func (a app) does() string {
	switch {
	case a.threads > 0:
		return "computes without end in " + quantity.Count(a.threads, "thread")
	case a.requests == 0:
		return "waits for requests"
	case a.requests == 1:
		return fmt.Sprintf("a request of %v each %v", a.cpu, a.every)
	}
	return fmt.Sprintf("%d requests of %v at once each %v", a.requests, a.cpu, a.every)
}

func podsOf(apps []app) (n int) {
	for _, a := range apps {
		n += a.replicas
	}
	return n
}

func namespacesOf(apps []app) (all []string) {
	for _, a := range apps {
		if !slices.Contains(all, a.namespace) {
			all = append(all, a.namespace)
		}
	}
	return all
}

// appLabel has the name of the workload.
const appLabel = "app"

// template returns the pods of a workload.
func (a app) template() corev1.PodTemplateSpec {
	amounts := func(cpus float64) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(int64(1000*cpus), resource.DecimalSI)}
	}
	c := corev1.Container{Name: "app", Image: "docker.io/library/httpd:latest"}
	if a.threads > 0 {
		c.Image = "registry.cn-zhangjiakou.aliyuncs.com/xianlu/java-pi:latest"
		c.Env = []corev1.EnvVar{{Name: "limit", Value: "1000000"}, {Name: "threadNum", Value: fmt.Sprint(a.threads)}}
	}
	c.Resources.Requests = amounts(a.request)
	if a.limit > 0 {
		c.Resources.Limits = amounts(a.limit)
	}
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{appLabel: a.name}},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{c}, AutomountServiceAccountToken: new(false), EnableServiceLinks: new(false),
			TerminationGracePeriodSeconds: new(int64(0)),
		},
	}
}

// create creates a workload.
func (a app) create(ctx context.Context, client kubernetes.Interface) (err error) {
	meta := metav1.ObjectMeta{Name: a.name, Namespace: a.namespace}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{appLabel: a.name}}
	apps, replicas := client.AppsV1(), new(int32(a.replicas))
	switch a.kind {
	case "Deployment":
		_, err = localnode.Create(ctx, apps.Deployments(a.namespace), &appsv1.Deployment{ObjectMeta: meta,
			Spec: appsv1.DeploymentSpec{Replicas: replicas, Selector: selector, Template: a.template()}})
	case "StatefulSet":
		_, err = localnode.Create(ctx, apps.StatefulSets(a.namespace), &appsv1.StatefulSet{ObjectMeta: meta,
			Spec: appsv1.StatefulSetSpec{Replicas: replicas, Selector: selector, Template: a.template()}})
	case "DaemonSet":
		_, err = localnode.Create(ctx, apps.DaemonSets(a.namespace), &appsv1.DaemonSet{ObjectMeta: meta,
			Spec: appsv1.DaemonSetSpec{Selector: selector, Template: a.template()}})
	}
	if err != nil {
		return fmt.Errorf("create %s %s: %w", a.kind, a.name, err)
	}
	return nil
}

// startFleet creates the workloads, waits until all pods run, and returns their addresses by
// workload.
func startFleet(ctx context.Context, client kubernetes.Interface) (addresses map[string][]string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, waitTimeout, fmt.Errorf("gave up after %v", waitTimeout))
	defer cancel()
	for _, name := range namespacesOf(fleet()) {
		if _, err := localnode.Create(ctx, client.CoreV1().Namespaces(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			return nil, fmt.Errorf("create namespace %s: %w", name, err)
		}
	}
	for _, a := range fleet() {
		if err := a.create(ctx, client); err != nil {
			return nil, err
		}
	}
	err = localnode.Poll(ctx, func() (string, error) {
		list, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: appLabel})
		if err != nil {
			return localnode.TryAgain(fmt.Errorf("list pods: %w", err))
		}
		addresses = map[string][]string{}
		waiting := fmt.Sprintf("there are %d pods of %d", len(list.Items), podsOf(fleet()))
		for i := range list.Items {
			pod := &list.Items[i]
			if pod.Status.Phase != corev1.PodRunning || pod.Status.PodIP == "" {
				return "pod " + pod.Name + " does not run" + reason(pod), nil
			}
			addresses[pod.Labels[appLabel]] = append(addresses[pod.Labels[appLabel]], pod.Status.PodIP)
		}
		if len(list.Items) == podsOf(fleet()) {
			waiting = ""
		}
		return waiting, nil
	})
	return addresses, err
}
