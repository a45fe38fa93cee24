package scheduler

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// Name is the plugin's name in the scheduler's configuration.
const Name = "Pinfold"

// Plugin decides about CPUs in every phase of scheduling.
type Plugin struct {
	shared *shared
	args   Args
	handle fwk.Handle
	// leadership keeps decisions of an earlier leader from being bound.
	leadership *Leadership
	nodes      *nodeStates
	ranks      rankTables
	// situations are what nodes have answered, each and all.
	situations situations
	last       atomic.Pointer[lastCycle]
	// misconfigured tells what in the scheduler's configuration keeps pods from
	// getting their CPUs, or "". It can be asked when scheduling has begun.
	misconfigured func() string
}

var (
	_ fwk.PreFilterPlugin     = (*Plugin)(nil)
	_ fwk.PreFilterExtensions = (*Plugin)(nil)
	_ fwk.FilterPlugin        = (*Plugin)(nil)
	_ fwk.ScorePlugin         = (*Plugin)(nil)
	_ fwk.ScoreExtensions     = (*Plugin)(nil)
	_ fwk.ReservePlugin       = (*Plugin)(nil)
	_ fwk.BindPlugin          = (*Plugin)(nil)
	_ fwk.EnqueueExtensions   = (*Plugin)(nil)
	_ fwk.SignPlugin          = (*Plugin)(nil)
)

// NewFactory makes what app.WithPlugin registers: a function that makes the plugin for one
// profile of a scheduler, which may be elected by a lease.
func NewFactory(leadership *Leadership) frameworkruntime.PluginFactory {
	return func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		p, err := newPlugin(ctx, args, handle, newTopologyClient)
		if err != nil {
			return nil, err
		}
		p.leadership = leadership
		return p, nil
	}
}

func newPlugin(ctx context.Context, args runtime.Object, handle fwk.Handle, client makeClient) (*Plugin, error) {
	parsed, err := parseArgs(args)
	if err != nil {
		return nil, err
	}
	p := &Plugin{args: parsed, handle: handle, misconfigured: sync.OnceValue(func() string { return otherBinder(handle) })}
	if p.shared, err = sharedOf(ctx, parsed, handle, client); err != nil {
		return nil, fmt.Errorf("start plugin %s: %w", Name, err)
	}
	p.nodes = newNodeStates(p.shared.topologies, p.derive)
	_, err = handle.SharedInformerFactory().Core().V1().Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		DeleteFunc: onDeleted(func(node *corev1.Node) { p.nodes.forget(node.Name) }),
	})
	if err != nil {
		return nil, fmt.Errorf("start plugin %s: %w", Name, err)
	}
	return p, nil
}

// Name implements the framework's Plugin.
func (p *Plugin) Name() string { return Name }

// otherBinder looks for a plugin that binds pods before this one would, and thereby
// without their CPUs.
func otherBinder(handle fwk.Handle) string {
	framework, ok := handle.(interface{ ListPlugins() *config.Plugins })
	if !ok {
		return ""
	}
	binders := framework.ListPlugins().Bind.Enabled
	if len(binders) > 0 && binders[0].Name == Name {
		return ""
	}
	first := "none"
	if len(binders) > 0 {
		first = binders[0].Name
	}
	return fmt.Sprintf("the scheduler is misconfigured: plugin %s must be the first at extension point bind, and %s is; disable %s there",
		Name, first, first)
}
