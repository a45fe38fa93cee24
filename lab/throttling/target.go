package throttling

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/lab/load"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/kubepods"
)

// Target is a server to measure.
type Target struct {
	Name   string
	URL    string
	Groups []string // the cgroups of container and pod, in this order; nil if unknown
	Limit  bandwidth.Limits
}

// OfPod returns a target for the first container of a pod that runs on this machine, at the
// container's first port, or port 80.
func OfPod(naming kubepods.Naming, pod *corev1.Pod) (Target, error) {
	id := ""
	for _, s := range pod.Status.ContainerStatuses {
		if s.Name == pod.Spec.Containers[0].Name {
			id = s.ContainerID
		}
	}
	if pod.Status.Phase != corev1.PodRunning || pod.Status.PodIP == "" || id == "" {
		return Target{}, fmt.Errorf("pod %s/%s is %s: wait until it runs", pod.Namespace, pod.Name, pod.Status.Phase)
	}
	var (
		container = pod.Spec.Containers[0]
		tier      = api.TierOf(pod)
		uid       = string(pod.UID)
		port      = 80
	)
	if hash := pod.Annotations["kubernetes.io/config.hash"]; hash != "" {
		uid = hash // the kubelet names the groups of a static pod by this hash
	}
	if len(container.Ports) > 0 {
		port = int(container.Ports[0].ContainerPort)
	}
	return Target{
		Name:   pod.Name,
		URL:    "http://" + net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(port)) + "/",
		Groups: []string{naming.StatusContainer(tier, uid, id), naming.Pod(tier, uid)},
		Limit:  limitOf(container),
	}, nil
}

// period is the bandwidth period that the kubelet sets.
const period = 100 * time.Millisecond

func limitOf(container corev1.Container) bandwidth.Limits {
	cpu, ok := container.Resources.Limits[corev1.ResourceCPU]
	if !ok {
		return bandwidth.Limits{Quota: bandwidth.Unlimited, Period: period}
	}
	return bandwidth.Limits{Quota: time.Duration(cpu.MilliValue()) * period / 1000, Period: period}
}

// Asking returns a copy of the target whose requests ask for the given CPU time, with the query
// parameter "cpu" of the example images.
func (t Target) Asking(cpu time.Duration) (Target, error) {
	address, err := url.Parse(t.URL)
	if err != nil {
		return t, fmt.Errorf("ask %s for CPU time: %w", t.URL, err)
	}
	query := address.Query()
	query.Set("cpu", cpu.String())
	address.RawQuery = query.Encode()
	t.URL = address.String()
	return t, nil
}

// MeasureAll measures several targets at the same time, so that other activity of the machine affects
// all of them. Each gets the whole plan. Their batches are spread evenly over the interval. Targets
// that fail have a row as well.
func MeasureAll(ctx context.Context, groups *cgroup.FS, targets []Target, plan load.Plan) ([]Row, error) {
	var (
		rows = make([]Row, len(targets))
		errs = make([]error, len(targets))
		all  sync.WaitGroup
	)
	for i, target := range targets {
		sender, err := load.NewHTTP(target.URL)
		if err != nil {
			return nil, err
		}
		defer sender.Close()
		all.Go(func() {
			sleep.For(ctx, time.Duration(i)*plan.Every/time.Duration(len(targets)))
			rows[i], errs[i] = measure(ctx, groups, target.Groups, target.Limit, plan, sender.Send)
			rows[i].Name = target.Name
			if errs[i] != nil {
				errs[i] = fmt.Errorf("%s: %w", target.Name, errs[i])
			}
		})
	}
	all.Wait()
	return rows, errors.Join(errs...)
}
