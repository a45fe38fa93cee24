// Package uninstall turns the agents of DaemonSets into cleanups: each node's pod ends the agent,
// restores the node's control groups with "pinfold-agent cleanup", and stays until its DaemonSet is
// deleted. [Run] waits until all nodes are done. If that fails, it puts the DaemonSets back, and the
// agents run again.
//
// All that it changes is in the DaemonSets, with what they were, so every interruption can be
// repeated.
package uninstall

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/internal/sleep"
)

// The containers of a pod that cleans up.
const (
	agentContainer   = "agent"   // of the DaemonSet: afterwards it waits
	cleanupContainer = "cleanup" // an init container
)

// pollEvery is how often the pods are looked at.
const pollEvery = 500 * time.Millisecond

// Options configures [Run].
type Options struct {
	Client     kubernetes.Interface
	DaemonSets []types.NamespacedName // of the agents
	Progress   func(text string)      // called when the number of nodes that are done changes
}

// Run turns the pods of all DaemonSets into cleanups and waits until every node of them is cleaned
// up. It changes nothing while pods have CPUs of resource claims. If it cannot, or the context ends
// before, the DaemonSets are put back, and the error, which is an event of them, too, names the
// nodes and says why. A DaemonSet that does not exist has nothing to clean up.
func Run(ctx context.Context, o Options) error {
	var mu sync.Mutex
	var removals []removal
	nodes := map[string]bool{}
	for _, name := range o.DaemonSets {
		r := removal{NamespacedName: name, client: o.Client, progress: func(text string) {
			mu.Lock()
			defer mu.Unlock()
			if len(o.DaemonSets) > 1 {
				text = name.Name + ": " + text
			}
			o.Progress(text)
		}}
		removals = append(removals, r)
		_, pods, err := r.pods(ctx)
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("read the agent's DaemonSet: %w", err)
		}
		for i := range pods {
			nodes[nodeOf(&pods[i])] = true
		}
	}
	err := o.checkClaims(ctx, nodes)
	if err == nil {
		err = each(removals, func(r removal) error { return r.run(ctx) })
	}
	if err == nil {
		return nil
	}
	back, cancel := context.WithTimeout(context.WithoutCancel(ctx), backWithin)
	defer cancel()
	return errors.Join(err, each(removals, func(r removal) error { return errors.Join(r.putBack(back), r.failed(back, err)) }))
}

// each does something for all DaemonSets at the same time.
func each(removals []removal, do func(removal) error) error {
	var all sync.WaitGroup
	errs := make([]error, len(removals))
	for i, r := range removals {
		all.Go(func() { errs[i] = do(r) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// removal cleans up the nodes of one DaemonSet.
type removal struct {
	types.NamespacedName
	client   kubernetes.Interface
	progress func(text string)
}

func (r removal) run(ctx context.Context) error {
	sets := r.client.AppsV1().DaemonSets(r.Namespace)
	set, err := sets.Get(ctx, r.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		r.progress(fmt.Sprintf("there is no DaemonSet %s: no agent to clean up after", r))
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the agent's DaemonSet: %w", err)
	}
	patch, err := patchOf(set)
	if err != nil {
		return err
	}
	if patch != nil {
		if set, err = sets.Patch(ctx, r.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return fmt.Errorf("change the agent's DaemonSet: %w", err)
		}
	}
	return r.await(ctx, set.Generation)
}

// patchOf returns the change that makes the DaemonSet clean up, nil if it does already.
func patchOf(set *appsv1.DaemonSet) ([]byte, error) {
	pod := set.Spec.Template.Spec
	if cleansUp(pod) {
		return nil, nil
	}
	template := *set.Spec.Template.DeepCopy() // Helm 3 leaves the cleanup when it brings the agent back
	template.Spec.InitContainers = slices.DeleteFunc(template.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == cleanupContainer })
	was, err := json.Marshal(before{template, set.Spec.UpdateStrategy, set.ManagedFields})
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(pod.Containers, func(c corev1.Container) bool { return c.Name == agentContainer })
	if at < 0 {
		return nil, fmt.Errorf("DaemonSet %s/%s has no container %q: is it the agent's?", set.Namespace, set.Name, agentContainer)
	}
	cleanup := pod.Containers[at].DeepCopy()
	cleanup.Name = cleanupContainer
	cleanup.Args = cleanupArgs(cleanup.Args)
	cleanup.LivenessProbe, cleanup.ReadinessProbe, cleanup.StartupProbe = nil, nil, nil
	cleanup.Ports = nil
	cleanup.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	all := intstr.FromString("100%")
	return json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{beforeAnnotation: string(was)}}, "spec": map[string]any{
		"updateStrategy": appsv1.DaemonSetUpdateStrategy{
			Type:          appsv1.RollingUpdateDaemonSetStrategyType,
			RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: &all, MaxSurge: new(intstr.FromInt32(0))},
		},
		"template": map[string]any{"spec": map[string]any{
			"initContainers": []any{cleanup},
			"containers": []any{map[string]any{
				"name": agentContainer, "args": waitArgs(),
				"livenessProbe": nil, "readinessProbe": nil, "startupProbe": nil,
			}},
		}},
	}})
}

func waitArgs() []string { return []string{"wait"} }

// cleansUp reports whether a pod ends the agent and cleans up. If Helm has brought the agent back, the
// agent runs, although the cleanup before it may be left.
func cleansUp(pod corev1.PodSpec) bool {
	return slices.ContainsFunc(pod.InitContainers, func(c corev1.Container) bool { return c.Name == cleanupContainer }) &&
		slices.ContainsFunc(pod.Containers, func(c corev1.Container) bool { return c.Name == agentContainer && slices.Equal(c.Args, waitArgs()) })
}

// cleanupFlags are the flags of "pinfold-agent run" that its cleanup takes, too.
var cleanupFlags = []string{"--node-name", "--kubeconfig", "--host-root", "--run-dir", "--lease-namespace", "--kubelet-ca", "-v", "--verbose"}

// cleanupArgs returns the arguments of the cleanup for those of the agent. Flags have the form
// --name=value.
func cleanupArgs(run []string) []string {
	args := []string{"cleanup"}
	for _, arg := range run {
		if name, _, _ := strings.Cut(arg, "="); slices.Contains(cleanupFlags, name) {
			args = append(args, arg)
		}
	}
	return args
}

// await waits until all pods of the generation are ready.
func (r removal) await(ctx context.Context, generation int64) error {
	reported, last := "", errors.New("the DaemonSet was not read")
	for {
		done, all, waiting, err := r.look(ctx, generation)
		switch {
		case apierrors.IsNotFound(err):
			return fmt.Errorf("DaemonSet %s was deleted before all nodes were cleaned up: "+
				"run \"pinfold-agent cleanup\" on the nodes that are left", r)
		case err != nil:
			if ctx.Err() == nil {
				last = err
			}
		default:
			if text := fmt.Sprintf("%d of %s cleaned up", done, quantity.Count(all, "node")); text != reported {
				r.progress(text)
				reported = text
			}
			if done == all {
				return nil
			}
			last = unfinished(waiting, all-done)
		}
		if !sleep.For(ctx, pollEvery) {
			return fmt.Errorf("%w (%w)", last, context.Cause(ctx))
		}
	}
}

// look returns how many of all nodes are done, and why the pods of others are not, by node.
func (r removal) look(ctx context.Context, generation int64) (done, all int, waiting map[string]string, err error) {
	set, pods, err := r.pods(ctx)
	if err != nil {
		return 0, 0, nil, err
	}
	if set.Status.ObservedGeneration < generation {
		return 0, 0, nil, errors.New("the DaemonSet controller of the control plane has not seen the change yet: does kube-controller-manager run?")
	}
	waiting = map[string]string{}
	for i := range pods {
		why := problem(&pods[i])
		if why == "" {
			done++
		} else if node := nodeOf(&pods[i]); waiting[node] == "" {
			waiting[node] = why
		}
	}
	return done, int(set.Status.DesiredNumberScheduled), waiting, nil
}

// pods returns the DaemonSet with its pods.
func (r removal) pods(ctx context.Context) (*appsv1.DaemonSet, []corev1.Pod, error) {
	set, err := r.client.AppsV1().DaemonSets(r.Namespace).Get(ctx, r.Name, metav1.GetOptions{})
	if err != nil {
		return nil, nil, err
	}
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil {
		return nil, nil, err
	}
	pods, err := r.client.CoreV1().Pods(r.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector.String()})
	if err != nil {
		return nil, nil, err
	}
	return set, slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return !metav1.IsControlledBy(&p, set) }), nil
}

// nodeOf returns the node of a DaemonSet's pod. Before it is scheduled, its affinity names the
// node.
func nodeOf(pod *corev1.Pod) string {
	if pod.Spec.NodeName != "" || pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil {
		return pod.Spec.NodeName
	}
	required := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required != nil {
		for _, term := range required.NodeSelectorTerms {
			for _, field := range term.MatchFields {
				if field.Key == metav1.ObjectNameField && len(field.Values) == 1 {
					return field.Values[0]
				}
			}
		}
	}
	return ""
}

// problem returns why the pod's node is not cleaned up, "" if it is.
func problem(pod *corev1.Pod) string {
	if !cleansUp(pod.Spec) {
		if pod.DeletionTimestamp != nil {
			return "its agent has not ended: is the node down?"
		}
		return "its agent still runs"
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
			return ""
		}
	}
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		for _, state := range []corev1.ContainerState{status.LastTerminationState, status.State} {
			if t := state.Terminated; t != nil && t.ExitCode != 0 {
				return "cleanup failed: " + strings.TrimSpace(t.Message)
			}
		}
		if w := status.State.Waiting; w != nil && w.Message != "" {
			return w.Reason + ": " + w.Message
		}
	}
	return "its cleanup has not ended: is the node down?"
}

// unfinished describes the nodes that are not done.
func unfinished(waiting map[string]string, count int) error {
	var lines []string
	for _, node := range slices.Sorted(maps.Keys(waiting)) {
		lines = append(lines, fmt.Sprintf("\n  %s: %s", node, waiting[node]))
	}
	return fmt.Errorf("%s not cleaned up:%s\nuninstall again when they are back; delete the Node of one that is gone for good",
		quantity.Count(count, "node"), strings.Join(lines, ""))
}
