package agents

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"

	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/nodetopology"
)

// SilentReason is the reason of the node's condition while the agent is silent.
const SilentReason = "AgentSilent"

// A condition that could not be set is tried again after minPause, then after twice as long, up to
// maxPause.
const (
	minPause = 5 * time.Second
	maxPause = 5 * time.Minute
)

// massSilence is the number of silent agents, if they are more than half of all, from which nothing
// is said about single nodes: what keeps them all from renewing their leases is elsewhere.
const massSilence = 10

// MarkSilent sets the conditions of nodes whose agents are silent to Unknown until ctx ends, once
// for each silence, while this scheduler leads. The agents set them back. It sets none while most
// agents are silent: thousands of writes would keep an API server busy that may just have come back.
func (r *Reports) MarkSilent(ctx context.Context, client kubernetes.Interface, nodes corelisters.NodeLister, leads func() bool) {
	marked := map[string]time.Time{} // the silences for which it is set, by node
	failures := flowcontrol.NewBackOff(minPause, maxPause)
	mass := false
	for sleep.For(ctx, heartbeatTick) {
		if !leads() {
			continue
		}
		maps.DeleteFunc(marked, func(name string, _ time.Time) bool { return r.Named(name) == nil })
		names := r.Names()
		silent, was := r.silent(names), mass
		if mass = silent >= massSilence && 2*silent > len(names); mass {
			if !was {
				klog.FromContext(ctx).Error(nil, "Most Pinfold agents are silent: do they reach the API server, and does their DaemonSet run? Conditions of nodes are left alone",
					"silent", silent, "agents", len(names))
			}
			continue
		}
		for _, name := range names {
			node, err := nodes.Get(name)
			if err != nil {
				continue // the node is gone, or has not been seen yet
			}
			report := r.Of(node)
			if report == nil || report.Silent.IsZero() || marked[name].Equal(report.Silent) ||
				failures.IsInBackOffSinceUpdate(name, time.Now()) {
				continue
			}
			if markSilent(ctx, client, node, report) {
				marked[name] = report.Silent
				failures.Reset(name)
			} else {
				failures.Next(name, time.Now())
			}
		}
	}
}

// silent returns how many agents of some nodes are silent.
func (r *Reports) silent(names []string) (n int) {
	for _, name := range names {
		if report := r.Named(name); report != nil && !report.Silent.IsZero() {
			n++
		}
	}
	return n
}

// markSilent sets the condition of a node, and reports whether it is set.
func markSilent(ctx context.Context, client kubernetes.Interface, node *corev1.Node, report *Report) (done bool) {
	c := api.Condition(node, nodetopology.BindingCondition)
	if c.Status == corev1.ConditionUnknown && c.Reason == SilentReason {
		return true
	}
	if c.Status != corev1.ConditionUnknown {
		c.LastTransitionTime = metav1.Now()
	}
	c.Type, c.Status, c.Reason = nodetopology.BindingCondition, corev1.ConditionUnknown, SilentReason
	c.Message = fmt.Sprintf("the Pinfold agent of this node has not renewed its lease %s since %s: what it has set stays in force, "+
		"and no pod that asks for CPUs is scheduled here", report.State.AgentLease, report.Silent.UTC().Format(time.RFC3339))
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []corev1.NodeCondition{c}}})
	if err == nil {
		_, err = client.CoreV1().Nodes().PatchStatus(ctx, node.Name, patch)
	}
	switch log := klog.FromContext(ctx); {
	case err == nil:
		log.Info("The Pinfold agent of a node is silent", "node", node.Name, "lease", report.State.AgentLease, "since", report.Silent)
	case !apierrors.IsNotFound(err):
		log.Error(err, "Cannot set the condition of a node whose agent is silent", "node", node.Name)
	}
	return err == nil
}
