package scheduler

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/kube/scheduler/audit"
	"pinfold.dev/pinfold/kube/scheduler/informer"
	"pinfold.dev/pinfold/kube/scheduler/leader"
	"pinfold.dev/pinfold/kube/scheduler/waiting"
)

// Name is the plugin's name in the scheduler's configuration.
const Name = "Pinfold"

// Plugin allocates CPUs for one profile of a scheduler.
type Plugin struct {
	shared     *shared
	args       Args
	handle     fwk.Handle
	leadership *leader.Leadership
	nodes      *nodeStates
	ranks      rankTables
	// misconfigured returns the configuration error that prevents pods from getting their CPUs, or
	// "". It must not be called before scheduling starts.
	misconfigured func() string
}

var (
	_ fwk.PreFilterPlugin   = (*Plugin)(nil)
	_ fwk.FilterPlugin      = (*Plugin)(nil)
	_ fwk.ScorePlugin       = (*Plugin)(nil)
	_ fwk.ReservePlugin     = (*Plugin)(nil)
	_ fwk.BindPlugin        = (*Plugin)(nil)
	_ fwk.EnqueueExtensions = (*Plugin)(nil)
	_ fwk.SignPlugin        = (*Plugin)(nil)
)

// NewFactory returns the plugin's factory for app.WithPlugin. The factory creates one plugin per
// profile of the scheduler. The plugins send Bindings only while leadership allows it. register gets
// the scheduler's metrics.
func NewFactory(leadership *leader.Leadership, register func(...prometheus.Collector)) frameworkruntime.PluginFactory {
	return func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		p, err := newPlugin(ctx, args, handle, environment{nodetopology.NewClient, newLegacyClient, waiting.Delay, audit.Delay, syncTimeout, time.Now, register})
		if err != nil {
			return nil, err
		}
		p.leadership = leadership
		return p, nil
	}
}

func newPlugin(ctx context.Context, args runtime.Object, handle fwk.Handle, env environment) (*Plugin, error) {
	parsed, err := parseArgs(args)
	if err != nil {
		return nil, err
	}
	p := &Plugin{args: parsed, handle: handle, misconfigured: sync.OnceValue(func() string { return otherBinder(handle) })}
	if p.shared, err = sharedOf(ctx, parsed, handle, env); err != nil {
		return nil, fmt.Errorf("start plugin %s: %w", Name, err)
	}
	p.nodes = &nodeStates{derive: p.derive}
	_, err = handle.SharedInformerFactory().Core().V1().Nodes().Informer().AddEventHandler(
		informer.Handlers(nil, func(node *corev1.Node) { p.nodes.forget(node.Name) }))
	if err != nil {
		return nil, fmt.Errorf("start plugin %s: %w", Name, err)
	}
	return p, nil
}

// Name implements the framework's Plugin.
func (p *Plugin) Name() string { return Name }

// otherBinder returns an error message if another plugin binds pods before this one, because then
// pods are bound without their CPUs. Otherwise it returns "".
func otherBinder(handle fwk.Handle) string {
	framework, ok := handle.(interface{ ListPlugins() *config.Plugins })
	if !ok {
		return ""
	}
	first := "none"
	if binders := framework.ListPlugins().Bind.Enabled; len(binders) > 0 {
		first = binders[0].Name
	}
	if first == Name {
		return ""
	}
	return fmt.Sprintf("the scheduler is misconfigured: plugin %s must be the first at extension point bind, and %s is; disable %s there",
		Name, first, first)
}
