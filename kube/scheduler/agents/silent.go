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
	"pinfold.dev/pinfold/kube/nodetopology"
)

// SilentReason is the reason of the node's condition while the agent is silent, and FleetSilentReason
// that of the event if most agents are.
const (
	SilentReason      = "AgentSilent"
	FleetSilentReason = "AgentsSilent"
)

// At most maxMarks conditions are set in a second, because each is a request, which Bindings wait
// for. None is set while more agents than that, and more than half of all, are silent: they share
// the cause, and to set thousands of conditions would add to it. That is told each tellEvery.
const (
	maxMarks  = 10
	tellEvery = 10 * time.Minute
)

// A condition that could not be set is tried again after minPause, then after twice as long, up to
// maxPause.
const (
	minPause = 5 * time.Second
	maxPause = 5 * time.Minute
)

// MarkSilent sets the conditions of nodes whose agents are silent to Unknown until ctx ends, once
// for each silence, while this scheduler leads. The agents set them back. If most agents are silent,
// it calls tell instead.
func (r *Reports) MarkSilent(ctx context.Context, client kubernetes.Interface, nodes corelisters.NodeLister, leads func() bool, tell func(text string)) {
	marked := map[string]time.Time{} // the silences for which it is set, by node
	failures := flowcontrol.NewBackOff(minPause, maxPause)
	var told time.Time
	for sleep.For(ctx, heartbeatTick) {
		if !leads() {
			continue
		}
		maps.DeleteFunc(marked, func(name string, _ time.Time) bool { return r.Named(name) == nil })
		silent, all := r.silences()
		if len(silent) > maxMarks && 2*len(silent) > all {
			if time.Since(told) >= tellEvery {
				told = time.Now()
				tell(fmt.Sprintf("%d of %d Pinfold agents are silent: they share the cause, such as the API server, its limits for "+
					"their requests, the network, or the rights of their service account. No pod that asks for CPUs is scheduled to their "+
					"nodes, and the conditions of the nodes are left as they are", len(silent), all))
			}
			continue
		}
		left := maxMarks
		for _, report := range silent {
			node, err := nodes.Get(report.Name)
			if err != nil || !report.IsOf(node.UID) || marked[report.Name].Equal(report.Silent) ||
				failures.IsInBackOffSinceUpdate(report.Name, time.Now()) {
				continue // for example, the node is gone, or has not been seen yet
			}
			if left--; left < 0 {
				break
			}
			if markSilent(ctx, client, node, report) {
				marked[report.Name] = report.Silent
				failures.Reset(report.Name)
			} else {
				failures.Next(report.Name, time.Now())
			}
		}
	}
}

// silences returns the reports of nodes whose agents have been silent for so long that those that
// became silent together with them are known to be, and the number of agents that have leases.
func (r *Reports) silences() (silent []*Report, all int) {
	for _, found := range r.nodes.Range {
		report := found.(*Report)
		if report.State.AgentLease != "" {
			all++
		}
		if !report.Silent.IsZero() && r.beats.lasts(report.Name) {
			silent = append(silent, report)
		}
	}
	return silent, all
}

// markSilent sets the condition of a node, and reports whether it is set.
func markSilent(ctx context.Context, client kubernetes.Interface, node *corev1.Node, report *Report) (done bool) {
	c := corev1.NodeCondition{Type: nodetopology.BindingCondition}
	for _, have := range node.Status.Conditions {
		if have.Type == c.Type {
			c = have
		}
	}
	if c.Status == corev1.ConditionUnknown && c.Reason == SilentReason {
		return true
	}
	if c.Status != corev1.ConditionUnknown {
		c.LastTransitionTime = metav1.Now()
	}
	c.Status, c.Reason = corev1.ConditionUnknown, SilentReason
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
