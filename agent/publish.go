package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	topologyclient "github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/generated/clientset/versioned"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/kube/nodetopology"
)

// publisher keeps the node's topology object and condition as the engine says, and
// tells the engine what the Node object and the kubelet say.
type publisher struct {
	node       string
	client     kubernetes.Interface
	topologies topologyclient.Interface
	kubelet    func(context.Context) (control.Kubelet, error)
	staticPods func(context.Context) (map[ledger.PodID]types.NamespacedName, error)
	runDir     string
	engine     *engine
	log        *slog.Logger
	dedup      *logDedup
	now        func() time.Time
	// every is how often it looks, and retry when that failed.
	every, retry time.Duration

	changed   chan struct{}
	mu        sync.Mutex
	condition *corev1.NodeCondition
	// last is the Node as it was read last, with our condition in it.
	last *corev1.Node
	uid  atomic.Pointer[types.UID] // of last
}

// conditionIs takes the condition to be published. It does not wait.
func (p *publisher) conditionIs(c corev1.NodeCondition) {
	p.mu.Lock()
	same := p.condition != nil && *p.condition == c
	p.condition = &c
	p.mu.Unlock()
	if !same {
		p.soon()
	}
}

// soon has it look at everything without waiting until it is time. It does not wait.
func (p *publisher) soon() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// loop publishes what changes, and looks now and then at what others may have changed.
func (p *publisher) loop(ctx context.Context) {
	for {
		wait := p.every
		if err := p.once(ctx); err != nil && ctx.Err() == nil {
			wait = p.retry
		}
		select {
		case <-ctx.Done():
			return
		case <-p.changed:
			sleep.For(ctx, min(time.Second, p.retry)) // changes come together
		case <-time.After(wait):
		}
	}
}

// once does all of it. What fails of it does not keep the rest from being done.
func (p *publisher) once(ctx context.Context) error {
	errNode := p.lookAtNode(ctx)
	p.dedup.warnOrClear(p.log, "node", "cannot read the Node object; its last state counts", errNode)
	errKubelet := p.lookAtKubelet(ctx)
	p.dedup.warnOrClear(p.log, "kubelet", "the kubelet's configuration is as it was last known", errKubelet)
	errStatic := p.lookAtStaticPods(ctx)
	p.dedup.warnOrClear(p.log, "static pods", "mirror pods are given nothing of their static pods' groups", errStatic)
	errTopology := p.publishTopology(ctx)
	p.dedup.warnOrClear(p.log, "topology", "cannot publish the CPU topology of this node", errTopology)
	errCondition := p.publishCondition(ctx)
	p.dedup.warnOrClear(p.log, "condition", "cannot publish the node's condition", errCondition)
	return errors.Join(errNode, errKubelet, errStatic, errTopology, errCondition)
}

func (p *publisher) lookAtNode(ctx context.Context) error {
	node, err := p.client.CoreV1().Nodes().Get(ctx, p.node, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get node %s: %w", p.node, err)
	}
	p.last = node
	p.uid.Store(&node.UID)
	capacity, allocatable := node.Status.Capacity.Cpu(), node.Status.Allocatable.Cpu()
	reserved := max(0, capacity.MilliValue()-allocatable.MilliValue())
	p.engine.setNode(control.Node{UID: node.UID, Reserved: ledger.MilliCPU(reserved)})
	return nil
}

func (p *publisher) lookAtKubelet(ctx context.Context) error {
	k, err := p.kubelet(ctx)
	if err != nil {
		if last := lastKubelet(p.runDir); last != nil {
			p.engine.setKubelet(*last)
		}
		return err
	}
	if !p.engine.setKubelet(k) {
		return nil
	}
	p.log.Info("the kubelet's configuration", "cpuManagerPolicy", k.CPUManagerPolicy, "reservedSystemCPUs", k.ReservedCPUs.String(),
		"cgroupRoot", k.CgroupRoot, "cpuCFSQuota", !k.Quota.NoQuota)
	if err := keepKubelet(p.runDir, k); err != nil {
		p.log.Warn("the kubelet's configuration will not be known when the agent starts while the kubelet is down", "error", err)
	}
	return nil
}

// lookAtStaticPods asks for the static pods where a pod claims to be the copy of one that is
// not known.
func (p *publisher) lookAtStaticPods(ctx context.Context) error {
	if p.staticPods == nil || !p.engine.awaitsStaticPods() {
		return nil
	}
	pods, err := p.staticPods(ctx)
	if err == nil {
		p.engine.setStaticPods(pods)
	}
	return err
}

// publishTopology creates or updates the node's object where it differs. An object of
// somebody else is left alone.
func (p *publisher) publishTopology(ctx context.Context) error {
	want, err := p.engine.topology()
	if want == nil || err != nil {
		return err
	}
	objects := p.topologies.TopologyV1alpha2().NodeResourceTopologies()
	have, err := objects.Get(ctx, p.node, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = objects.Create(ctx, want, metav1.CreateOptions{})
		if apierrors.IsNotFound(err) {
			return errors.New("the cluster does not know NodeResourceTopology: apply deploy/manifests/noderesourcetopology-crd.yaml")
		}
		return p.published("created", err)
	case err != nil:
		return fmt.Errorf("get topology %s: %w", p.node, err)
	}
	if writer, ours := nodetopology.Owner(have); !ours {
		return fmt.Errorf("%w: stop that writer for this node (node-feature-discovery: its topology updater), then delete the object",
			&nodetopology.ForeignError{Node: p.node, Writer: writer})
	}
	if nodetopology.Equal(have, want) {
		return nil
	}
	want.ResourceVersion = have.ResourceVersion
	_, err = objects.Update(ctx, want, metav1.UpdateOptions{})
	return p.published("updated", err)
}

func (p *publisher) published(how string, err error) error {
	if err != nil {
		return fmt.Errorf("write topology %s: %w", p.node, err)
	}
	p.log.Info("published the CPU topology of this node: " + how)
	return nil
}

func (p *publisher) publishCondition(ctx context.Context) error {
	p.mu.Lock()
	want := p.condition
	p.mu.Unlock()
	if want == nil || p.last == nil {
		return nil
	}
	c := *want
	c.LastTransitionTime = metav1.NewTime(p.now())
	c.LastHeartbeatTime = c.LastTransitionTime
	for _, have := range p.last.Status.Conditions {
		if have.Type != c.Type {
			continue
		}
		if have.Status == c.Status && have.Reason == c.Reason && have.Message == c.Message {
			return nil
		}
		if have.Status == c.Status {
			c.LastTransitionTime = have.LastTransitionTime
		}
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []corev1.NodeCondition{c}}})
	if err != nil {
		return err
	}
	return patchStatus(ctx, p.client, p.node, patch)
}

// patchStatus changes conditions of a node, which are merged by their types.
func patchStatus(ctx context.Context, client kubernetes.Interface, node string, patch []byte) error {
	_, err := client.CoreV1().Nodes().PatchStatus(ctx, node, patch)
	if err != nil {
		return fmt.Errorf("patch the status of node %s: %w", node, err)
	}
	return nil
}

// topology is the object that should be published, nil while too little is known.
func (e *engine) topology() (*v1alpha2.NodeResourceTopology, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.control.Topology(e.health)
}

// nodeReference is the Node as kubectl looks for its events: by name in the place of the
// UID, as the kubelet writes them.
func nodeReference(name string) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: name, UID: types.UID(name)}
}
