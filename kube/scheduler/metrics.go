package scheduler

import (
	"sync"
	"sync/atomic"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"pinfold.dev/pinfold/kube/scheduler/waiting"
)

// The plugin's metrics are where kube-scheduler's are. How long its calls take is in kube-scheduler's
// scheduler_plugin_execution_duration_seconds.
var (
	placements = metrics.NewCounterVec(&metrics.CounterOpts{Subsystem: "pinfold_scheduler", Name: "placements_total", StabilityLevel: metrics.ALPHA,
		Help: "Pods that ask for CPUs and were given a node, by their policy; some may not have been bound to it."}, []string{"policy"})
	predictions = metrics.NewCounterVec(&metrics.CounterOpts{Subsystem: "pinfold_scheduler", Name: "predictions_total", StabilityLevel: metrics.ALPHA,
		Help: "Pods that were given a node and whose agent has published their CPUs (kept), or that it could not allocate any (failed); only pods that this process placed."}, []string{"result"})
	refusals = metrics.NewCounterVec(&metrics.CounterOpts{Subsystem: "pinfold_scheduler", Name: "refusals_total", StabilityLevel: metrics.ALPHA,
		Help: "Nodes that were refused to pods, by the reason, each node in each attempt to schedule a pod; not pods that are refused as a whole, and not by kube-scheduler's reasons."}, []string{"reason"})
	waitingPods = metrics.NewGaugeFunc(&metrics.GaugeOpts{Subsystem: "pinfold_scheduler", Name: "waiting_pods", StabilityLevel: metrics.ALPHA,
		Help: "Pods that ask for CPUs, were refused by the plugin and wait; not those with invalid annotations."}, func() float64 {
		if pods := allWaiting.Load(); pods != nil {
			return float64(pods.Count(asks))
		}
		return 0
	})
	allWaiting      atomic.Pointer[waiting.Pods] // of this process's scheduler
	registerMetrics = sync.OnceFunc(func() {
		legacyregistry.MustRegister(placements, predictions, refusals)
		legacyregistry.RawMustRegister(waitingPods)
	})
)

// reasonNames are the values of the label reason.
var reasonNames = map[shortageKind]string{
	noTopology: "no_topology", badTopology: "bad_topology", silentAgent: "silent_agent", observingAgent: "observing_agent", failingAgent: "failing_agent",
	badKubelet: "kubelet_policy", starvedBatch: "batch_starves", oldAgent: "old_agent", tooSmall: "too_small", noExclusive: "exclusive_cpus",
	noWholeCores: "whole_cores", noConfinement: "numa_nodes", noShared: "shared_cpus", oddCores: "odd_cores", gaveUp: "gave_up",
}
