package pods

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/lab/localnode"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/kubepods"
)

const (
	startTimeout = time.Minute
	endTimeout   = time.Minute
	poll         = 50 * time.Millisecond
	watchEvery   = 500 * time.Millisecond
)

// Node is this machine as a node of a local cluster.
type Node struct {
	client typedcorev1.PodInterface
	groups *cgroup.FS
	naming kubepods.Naming
}

// Open finds the groups of the kubelet on this machine. groups is rooted at "/". It returns an
// error if the node of the cluster is another machine.
func Open(ctx context.Context, client kubernetes.Interface, groups *cgroup.FS) (*Node, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	node, err := client.CoreV1().Nodes().Get(ctx, localnode.Name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("find the node of this machine: %w: start a cluster with 'pinfold-local up --node'", err)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return nil, fmt.Errorf("read the boot id: %w", err)
	}
	if strings.TrimSpace(string(boot)) != node.Status.NodeInfo.BootID {
		return nil, fmt.Errorf("node %s of the cluster is another machine: name the kubeconfig of this machine's cluster", localnode.Name)
	}
	naming, err := kubepods.Find(groups, "")
	if err != nil {
		return nil, fmt.Errorf("this machine is not a node of the cluster: start it with 'pinfold-local up --node': %w", err)
	}
	return &Node{client.CoreV1().Pods(metav1.NamespaceDefault), groups, naming}, nil
}

// Clean removes all pods of experiments, which a killed run has left. No other run may use the
// node.
func (n *Node) Clean(ctx context.Context) error {
	options := metav1.ListOptions{LabelSelector: ownLabel}
	return until(ctx, "remove the pods of an earlier run", func(ctx context.Context) (bool, error) {
		list, err := n.client.List(ctx, options)
		if err != nil || len(list.Items) == 0 {
			return err == nil, err
		}
		return false, n.client.DeleteCollection(ctx, metav1.DeleteOptions{}, options)
	})
}

// until repeats a request that has to end some time, until it is done or has a final error.
func until(ctx context.Context, doing string, request func(context.Context) (done bool, err error)) error {
	ctx, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	for {
		done, err := request(ctx)
		if done {
			return nil
		}
		if err != nil && !localnode.Unanswered(err) || !sleep.For(ctx, poll) {
			return fmt.Errorf("%s: %w", doing, errors.Join(err, context.Cause(ctx)))
		}
	}
}

// Pod is a running pod.
type Pod struct {
	// Group is the control group of the container.
	Group string
	// Output is what the program prints, from its start. It ends with the program, or when it is
	// closed.
	Output io.ReadCloser

	node *Node
	name string
	end  context.CancelFunc // of Output
}

// Start runs a pod. It returns when the program runs with its settings. On an error the pod is
// removed.
func (n *Node) Start(ctx context.Context, s Spec) (p *Pod, err error) {
	wanted, err := s.pod()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("pod %s did not run after %v", s.Name, startTimeout))
	defer cancel()
	p = &Pod{node: n, name: s.Name, end: func() {}}
	if _, err := localnode.Create(ctx, n.client, wanted); err != nil {
		return nil, errors.Join(fmt.Errorf("create pod %s: %w", s.Name, err), p.Stop())
	}
	if err := p.start(ctx, s); err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	// The stream goes on after this function has returned, but does not begin later.
	streaming, end := context.WithCancel(context.WithoutCancel(ctx))
	p.end = end
	begun := context.AfterFunc(ctx, end)
	p.Output, err = n.client.GetLogs(s.Name, &corev1.PodLogOptions{Follow: true}).Stream(streaming)
	begun()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read the output of pod %s: %w", s.Name, err), p.Stop())
	}
	return p, nil
}

// start waits until a pod runs with its settings.
func (p *Pod) start(ctx context.Context, s Spec) error {
	pod, err := p.running(ctx)
	if err != nil {
		return err
	}
	tier, uid := api.TierOf(pod), string(pod.UID)
	p.Group = p.node.naming.StatusContainer(tier, uid, pod.Status.ContainerStatuses[0].ContainerID)
	for {
		missing, err := p.missing(s, p.node.naming.Pod(tier, uid))
		if err == nil && missing == "" {
			return nil
		}
		if _, endErr := p.running(ctx); endErr != nil {
			return endErr
		}
		if !sleep.For(ctx, poll) {
			return fmt.Errorf("the settings of pod %s are not in force: %w", p.name, errors.Join(err, errors.New(missing)))
		}
	}
}

// running waits until a pod runs.
func (p *Pod) running(ctx context.Context) (*corev1.Pod, error) {
	for {
		pod, err := p.node.client.Get(ctx, p.name, metav1.GetOptions{})
		switch {
		case err != nil && !localnode.Unanswered(err):
			return nil, fmt.Errorf("read pod %s: %w", p.name, err)
		case err == nil && pod.Status.Phase == corev1.PodRunning && len(pod.Status.ContainerStatuses) > 0:
			return pod, nil
		case err == nil && api.HasEnded(pod):
			return nil, errors.Join(endOf(pod), p.printed(ctx))
		case err == nil && withoutImage(pod):
			return nil, fmt.Errorf("image %s is not in the cluster: make it with 'pinfold-lab images', and start the cluster with --images", pod.Spec.Containers[0].Image)
		}
		if !sleep.For(ctx, poll) {
			return nil, errors.Join(context.Cause(ctx), err, reason(pod))
		}
	}
}

// printed returns the last lines that a pod has printed as an error, nil if there are none.
func (p *Pod) printed(ctx context.Context) error {
	text, _ := p.node.client.GetLogs(p.name, &corev1.PodLogOptions{TailLines: new(int64(5))}).DoRaw(ctx) // how it ended is known
	if text = bytes.TrimSpace(text); len(text) > 0 {
		return errors.New(string(text))
	}
	return nil
}

// missing returns which settings are not in force.
func (p *Pod) missing(s Spec, group string) (string, error) {
	found, err := p.node.groups.ReadParts(p.Group, cgroup.Parts{Bandwidth: true, Effective: true})
	if err != nil {
		return "", err
	}
	above, err := p.node.groups.ReadParts(group, cgroup.Parts{Idle: true})
	return s.missing(found.Limits, found.Effective.Len(), above.Idle), err
}

// withoutImage reports whether a pod waits for an image that cannot be pulled.
func withoutImage(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.State.Waiting != nil && (s.State.Waiting.Reason == "ErrImagePull" || s.State.Waiting.Reason == "ImagePullBackOff")
	})
}

// endOf returns an error that says how a pod has ended.
func endOf(pod *corev1.Pod) error {
	for _, s := range pod.Status.ContainerStatuses {
		if t := s.State.Terminated; t != nil {
			return fmt.Errorf("pod %s ended with status %d (%s) %s", pod.Name, t.ExitCode, t.Reason, t.Message)
		}
	}
	return fmt.Errorf("pod %s ended: %s %s", pod.Name, pod.Status.Reason, pod.Status.Message)
}

// reason returns why a pod does not run, nil if its status does not say it.
func reason(pod *corev1.Pod) error {
	if pod == nil {
		return nil
	}
	for _, s := range pod.Status.ContainerStatuses {
		if w := s.State.Waiting; w != nil && w.Message != "" {
			return fmt.Errorf("%s: %s", w.Reason, w.Message)
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Status == corev1.ConditionFalse && c.Message != "" {
			return fmt.Errorf("%s: %s", c.Reason, c.Message)
		}
	}
	return nil
}

// Wait waits until the pod ends by itself, and returns how, or until ctx ends.
func (p *Pod) Wait(ctx context.Context) error {
	for sleep.For(ctx, watchEvery) {
		if err := p.ended(ctx); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	return p.ended(ctx)
}

// ended returns how the pod has ended, nil if it has not, or if that is not known.
func (p *Pod) ended(ctx context.Context) error {
	pod, err := p.node.client.Get(ctx, p.name, metav1.GetOptions{})
	switch {
	case err == nil && api.HasEnded(pod):
		return errors.Join(endOf(pod), p.printed(ctx))
	case apierrors.IsNotFound(err):
		return fmt.Errorf("pod %s was removed", p.name)
	}
	return nil
}

// Stop removes the pod, and waits until it is gone.
func (p *Pod) Stop() error {
	defer p.end()
	return until(context.Background(), "remove pod "+p.name, func(ctx context.Context) (bool, error) {
		err := p.node.client.Delete(ctx, p.name, metav1.DeleteOptions{})
		return apierrors.IsNotFound(err), err
	})
}
