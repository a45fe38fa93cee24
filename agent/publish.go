package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	apiwait "k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/agent/kubelet"
	"pinfold.dev/pinfold/core/colocation"
	"pinfold.dev/pinfold/internal/logdedup"
	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/nodetopology"
)

// publisher keeps the node's topology object and condition up to date, and passes the Node object
// and the kubelet's configuration to the engine.
type publisher struct {
	Options
	engine *engine
	dedup  *logdedup.Log
	wake   chan struct{} // requests a refresh

	mu        sync.Mutex
	condition *corev1.NodeCondition // to be published

	node *corev1.Node              // as last read, nil before
	uid  atomic.Pointer[types.UID] // of node
}

// setCondition sets the condition to publish. It does not wait.
func (p *publisher) setCondition(c corev1.NodeCondition) {
	p.mu.Lock()
	same := p.condition != nil && *p.condition == c
	p.condition = &c
	p.mu.Unlock()
	if !same {
		p.refresh()
	}
}

// refresh makes loop read and publish everything soon. It does not wait.
func (p *publisher) refresh() { signal(p.wake) }

// loop publishes changes, and checks periodically what others may have changed.
func (p *publisher) loop(ctx context.Context) {
	for {
		wait := p.APIEvery
		if err := p.once(ctx); err != nil && ctx.Err() == nil {
			wait = p.RetryAfter
		}
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
			sleep.For(ctx, min(time.Second, p.RetryAfter)) // changes come in groups
		case <-time.After(apiwait.Jitter(wait, .2)): // not all agents at a time
		}
	}
}

// once reads and publishes everything. The failure of one part does not prevent the others.
func (p *publisher) once(ctx context.Context) error {
	var errs []error
	for _, part := range []struct {
		about, message string
		do             func(context.Context) error
	}{
		{"node", "cannot read the Node object; using its last state", p.readNode},
		{"kubelet", "cannot read the kubelet's configuration; using the last known one", p.readKubelet},
		{"static pods", "mirror pods get nothing of their static pods' groups", p.readStaticPods},
		{"topology", "cannot publish the CPU topology of this node", p.publishTopology},
		{"condition", "cannot publish the node's condition", p.publishCondition},
		{"batch condition", "cannot publish whether batch pods starve on this node", p.publishStarved},
		{"batch capacity", "cannot publish what batch pods may request on this node", p.publishBatchCapacity},
	} {
		err := part.do(ctx)
		p.dedup.WarnOrClear(part.about, part.message, err)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (p *publisher) readNode(ctx context.Context) error {
	node, err := p.Client.CoreV1().Nodes().Get(ctx, p.NodeName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get node %s: %w", p.NodeName, err)
	}
	if p.node == nil {
		p.engine.requestRound() // CPUs are given from then on
	}
	p.node = node
	p.uid.Store(&node.UID)
	p.engine.step(control.Event{Reserved: new(api.Reserved(node))})
	p.engine.claims.Changed()
	return nil
}

func (p *publisher) readKubelet(ctx context.Context) error {
	k, err := p.Kubelet(ctx)
	p.engine.step(control.Event{StrangeKubelet: new(errors.Is(err, kubelet.ErrUntrusted))})
	if err != nil {
		if last := savedKubelet(p.RunDir); last != nil {
			p.engine.setKubelet(*last)
		}
		return err
	}
	if !p.engine.setKubelet(k) {
		return nil
	}
	p.Log.Info("the kubelet's configuration", "cpuManagerPolicy", k.CPUManagerPolicy, "reservedSystemCPUs", k.ReservedCPUs.String(),
		"cgroupRoot", k.CgroupRoot, "cpuCFSQuota", !k.Quota.NoQuota)
	p.dedup.WarnOrClear("saved kubelet", "an agent that starts while the kubelet is down does not know its configuration", saveKubelet(p.RunDir, k))
	return nil
}

// readStaticPods asks for the static pods if a pod claims to be the copy of an unknown one.
func (p *publisher) readStaticPods(ctx context.Context) error {
	var needed bool
	p.engine.with(func(c *control.Control) { needed = c.Pods.NeedsStaticPods() })
	if !needed {
		return nil
	}
	event := control.Event{StaticPodsAsked: true}
	var err error
	if p.StaticPods != nil {
		event.StaticPods, err = p.StaticPods(ctx)
	}
	p.engine.step(event)
	p.engine.requestRound()
	return err
}

// publishTopology creates the node's object, or updates it if it differs.
func (p *publisher) publishTopology(ctx context.Context) error {
	want, err := p.topology()
	if want == nil || err != nil {
		return err
	}
	have, err := p.Topologies.Get(ctx, p.NodeName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		have, err = p.Topologies.Create(ctx, want, metav1.CreateOptions{})
		if apierrors.IsNotFound(err) {
			return nodetopology.ErrNoDefinition
		}
		return p.published("created", have, want, err)
	}
	if err != nil {
		return fmt.Errorf("get topology %s: %w", p.NodeName, err)
	}
	if nodetopology.Equal(have, want) {
		return nil
	}
	want.ResourceVersion = have.ResourceVersion
	have, err = p.Topologies.Update(ctx, want, metav1.UpdateOptions{})
	return p.published("updated", have, want, err)
}

// topology returns the node's object, or nil while too little is known.
func (p *publisher) topology() (*nodetopology.NodeTopology, error) {
	state := nodetopology.State{Writer: "pinfold-agent " + p.Version, AgentHealth: *p.engine.node.health.Load()}
	p.engine.reports.update(func(*stats) { state.Findings = p.engine.reports.findings })
	var status control.Status
	p.engine.with(func(*control.Control) {
		if status = p.engine.status; p.engine.kubelet != nil {
			state.KubeletPolicy, state.ReservedCPUs = p.engine.kubelet.CPUManagerPolicy, p.engine.kubelet.ReservedCPUs
		}
	})
	if status.Machine == nil || p.node == nil || !status.Settled || !p.engine.node.looked.Load() {
		return nil, nil //nolint:nilnil // nothing to publish yet is not an error
	}
	if state.WithheldCPUs = status.Withheld; !p.Observe {
		state.Allocations = status.Allocations
	}
	if p.LeaseNamespace != "" {
		state.AgentLease = p.LeaseNamespace + "/" + p.NodeName
	}
	object, err := nodetopology.FromMachine(p.NodeName, status.Machine, state)
	if err != nil {
		return nil, err
	}
	nodetopology.OwnedByNode(object, p.node.UID)
	return object, nil
}

// published judges what the API server has made of an object that was to be written.
func (p *publisher) published(how string, have, want *nodetopology.NodeTopology, err error) error {
	switch {
	case err != nil:
		return fmt.Errorf("write topology %s: %w", p.NodeName, err)
	case !nodetopology.Equal(have, want):
		return nodetopology.ErrOldDefinition
	}
	p.Log.Info("published the CPU topology of this node: " + how)
	return nil
}

// publishCondition writes the condition about CPUs if it differs from that in the Node object.
func (p *publisher) publishCondition(ctx context.Context) error {
	p.mu.Lock()
	want := p.condition
	p.mu.Unlock()
	if want == nil || p.node == nil {
		return nil
	}
	return p.writeCondition(ctx, *want)
}

// publishStarved writes whether batch pods starve, if that differs from the Node object. Without a
// bound for batch pods the node has no such condition.
func (p *publisher) publishStarved(ctx context.Context) error {
	if p.node == nil {
		return nil
	}
	if !p.BoundsBatch() {
		return deleteCondition(ctx, p.Client, p.node, api.BatchStarved)
	}
	var batch colocation.Decision
	p.engine.with(func(*control.Control) { batch = p.engine.status.Batch.Decision })
	if batch.Budget == 0 {
		return nil // nothing is decided yet
	}
	c := corev1.NodeCondition{Type: api.BatchStarved, Status: corev1.ConditionFalse, Reason: "Enough",
		Message: "no batch pod has waited for CPU time for a minute"}
	if batch.Starved {
		c.Status, c.Reason = corev1.ConditionTrue, "Starved"
		c.Message = fmt.Sprintf("all batch pods together may use no more than %g CPUs (--batch-floor), because others use the rest",
			float64(p.Batch.Floor))
	}
	return p.writeCondition(ctx, c)
}

// deleteCondition removes a condition from a node, if it has it.
func deleteCondition(ctx context.Context, client kubernetes.Interface, node *corev1.Node, kind corev1.NodeConditionType) error {
	if api.Condition(node, kind).Type == "" {
		return nil
	}
	return patchCondition(ctx, client, node.Name, map[string]any{"type": kind, "$patch": "delete"})
}

// writeCondition writes a condition if it differs from that in the Node object.
func (p *publisher) writeCondition(ctx context.Context, c corev1.NodeCondition) error {
	c.LastTransitionTime = metav1.NewTime(p.Now())
	c.LastHeartbeatTime = c.LastTransitionTime
	if have := api.Condition(p.node, c.Type); have.Status == c.Status {
		if have.Reason == c.Reason && have.Message == c.Message {
			return nil
		}
		c.LastTransitionTime = have.LastTransitionTime
	}
	return patchCondition(ctx, p.Client, p.NodeName, c)
}

// publishBatchCapacity writes what the node offers to batch pods if that differs from the Node
// object. Without a bound for batch pods the node offers nothing.
func (p *publisher) publishBatchCapacity(ctx context.Context) error {
	if p.node == nil {
		return nil
	}
	if !p.BoundsBatch() {
		return deleteBatchCapacity(ctx, p.Client, p.node)
	}
	var amount int64
	var known bool
	p.engine.with(func(*control.Control) { amount, known = p.engine.status.Batch.Capacity() })
	want := *resource.NewQuantity(amount, resource.DecimalSI)
	capacity, ok := p.node.Status.Capacity[api.BatchCPU]
	if !known || ok && capacity.Equal(want) {
		return nil
	}
	// The kubelet derives the allocatable amount from the capacity, some seconds later.
	return patchStatus(ctx, p.Client, p.NodeName, map[string]any{
		"capacity": corev1.ResourceList{api.BatchCPU: want}, "allocatable": corev1.ResourceList{api.BatchCPU: want}})
}

// deleteBatchCapacity removes what a node offers to batch pods.
func deleteBatchCapacity(ctx context.Context, client kubernetes.Interface, node *corev1.Node) error {
	if _, ok := node.Status.Capacity[api.BatchCPU]; !ok {
		return nil
	}
	none := map[corev1.ResourceName]any{api.BatchCPU: nil}
	return patchStatus(ctx, client, node.Name, map[string]any{"capacity": none, "allocatable": none})
}

// patchCondition merges a condition into the status of a node, by its type. The condition may be
// any value that encodes as one or as its deletion.
func patchCondition(ctx context.Context, client kubernetes.Interface, node string, condition any) error {
	return patchStatus(ctx, client, node, map[string]any{"conditions": []any{condition}})
}

// patchStatus merges fields into the status of a node.
func patchStatus(ctx context.Context, client kubernetes.Interface, node string, fields map[string]any) error {
	patch, err := json.Marshal(map[string]any{"status": fields})
	if err != nil {
		return err
	}
	if _, err := client.CoreV1().Nodes().PatchStatus(ctx, node, patch); err != nil {
		return fmt.Errorf("patch the status of node %s: %w", node, err)
	}
	return nil
}
