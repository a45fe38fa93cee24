package scheduler

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/kube/nodetopology/apiclient"
	"pinfold.dev/pinfold/kube/scheduler/waiting"
)

// Name is the plugin's name in the scheduler's configuration.
const Name = "Pinfold"

// Plugin chooses nodes for one profile of a scheduler.
type Plugin struct {
	shared *shared
	args   Args
	handle fwk.Handle
	nodes  *nodeStates
	ranks  rankTables
}

var (
	_ fwk.PreFilterPlugin   = (*Plugin)(nil)
	_ fwk.FilterPlugin      = (*Plugin)(nil)
	_ fwk.PreScorePlugin    = (*Plugin)(nil)
	_ fwk.ScorePlugin       = (*Plugin)(nil)
	_ fwk.ReservePlugin     = (*Plugin)(nil)
	_ fwk.EnqueueExtensions = (*Plugin)(nil)
	_ fwk.SignPlugin        = (*Plugin)(nil)
)

// New is the plugin's factory for app.WithPlugin, which creates one plugin per profile of the scheduler.
func New(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	return newPlugin(ctx, args, handle, environment{apiclient.New, waiting.Delay, syncTimeout, time.Now})
}

var _ frameworkruntime.PluginFactory = New

func newPlugin(ctx context.Context, args runtime.Object, handle fwk.Handle, env environment) (*Plugin, error) {
	parsed, err := parseArgs(args)
	if err != nil {
		return nil, err
	}
	p := &Plugin{args: parsed, handle: handle}
	if p.shared, err = sharedOf(ctx, parsed, handle, env); err != nil {
		return nil, fmt.Errorf("start plugin %s: %w", Name, err)
	}
	p.nodes = &nodeStates{derive: p.derive}
	p.shared.follow(p.published)
	_, err = handle.SharedInformerFactory().Core().V1().Nodes().Informer().AddEventHandler(
		informerHandlers(nil, func(node *corev1.Node) { p.nodes.forget(node.Name) }))
	if err != nil {
		return nil, fmt.Errorf("start plugin %s: %w", Name, err)
	}
	return p, nil
}

// Report passes what the agent of a node reports, as a watch of its object does. It is for programs that
// simulate agents.
func (p *Plugin) Report(object *nodetopology.NodeTopology) {
	p.shared.received(p.shared.reports.Read(object))
}

// Name implements the framework's Plugin.
func (p *Plugin) Name() string { return Name }
