package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	informers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"

	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/agent/control/pods"
	"pinfold.dev/pinfold/linux/weight"
)

// agent are the values that work on a node; see task for who runs what.
type agent struct {
	*engine
	*rounds
	*ticks
}

func newAgent(o Options, k *kernel) *agent {
	k.units.limit = o.CallLimit
	e := newEngine(o, k)
	return &agent{e, newRounds(e), newTicks(e)}
}

// Run runs the agent until the context ends. It returns an error if the agent cannot start.
func Run(ctx context.Context, o Options) error {
	o = o.withDefaults()
	release, err := lock(o.RunDir)
	if err != nil {
		return err
	}
	defer release()
	k, err := openKernel(o.Root)
	if err != nil {
		return fmt.Errorf("find the control groups: %w", err)
	}
	defer k.groups.Close()
	if !o.Observe {
		if err := weight.Clean(k.groups); err != nil {
			o.Log.Info("a recording that was killed left control groups with raised weights", "error", err)
		}
	}
	a := newAgent(o, k)
	if o.Partitioned() {
		if err := k.groups.CheckPartitions(); err != nil {
			return fmt.Errorf("containers cannot be cpuset partitions (--partition=%s): %w; or run the agent with --partition=none", o.Partition, err)
		}
	}
	if o.Batch.Objective > 0 {
		if err := a.usage.CheckWaiting(a.delays != nil); err != nil {
			return fmt.Errorf("the waiting of online pods cannot be measured (--batch-objective): %w", err)
		}
	}
	srv, err := newServer(a)
	if err != nil {
		return err
	}
	if err := a.recover(); err != nil {
		return fmt.Errorf("save that no settings are in force: %w", err)
	}
	if last := savedKubelet(o.RunDir); last != nil {
		a.setKubelet(*last)
	}
	stopEvents := a.reports.recordEvents()
	defer stopEvents()
	p := &publisher{Options: o, engine: a.engine, dedup: a.reports.dedup, wake: make(chan struct{}, 1)}
	a.reports.condition, a.reports.refresh = p.setCondition, p.refresh
	if err := watchPods(ctx, a.engine); err != nil {
		return err
	}
	defer func() { _ = os.Remove(reportFile(o.RunDir)) }()
	o.Log.Info("the agent runs", "node", o.NodeName, "mode", o.mode(), "root", o.Root, "metrics", srv.metrics.String(), "health", srv.health.String())

	if self, err := os.Readlink(filepath.Join(o.Root, "proc/self")); err == nil && self != strconv.Itoa(os.Getpid()) {
		a.reports.dedup.WarnOrClear("affinity", "an affinity of containers' threads is not noticed",
			errors.New("these are not visible here: run in the PID namespace of the host (hostPID: true)"))
	}

	h := &heartbeat{Options: o, node: &p.uid, lastRound: &a.lastRound, dedup: a.reports.dedup, resumed: p.refresh}
	err = runTasks(ctx, func(ctx context.Context) error { return srv.serve(ctx) }, []task{
		{"rounds", true, func(ctx context.Context) { a.rounds.loop(ctx, srv.observe) }},
		{"ticks", o.SampleInterval > 0 || o.Batch.Threshold > 0, a.ticks.loop},
		{"load", true, (&coreSetLoad{engine: a.engine}).run},
		{"runtime", true, runtimeHandler{a.engine}.serve},
		{"systemd", true, func(ctx context.Context) { k.units.run(ctx, a.reports.dedup, a.requestRound) }},
		{"claims", a.servesClaims(), a.claims.Run},
		{"new pods", true, newPods{a.engine}.watch},
		{"weight", !o.Observe, func(ctx context.Context) { keepWeight(ctx, a.engine) }},
		{"batch scheduler", true, a.scheduler.Run},
		{"samples", o.SampleInterval > 0, func(ctx context.Context) { a.meters.run(ctx, k.groups, &o, a.reports.dedup) }},
		{"delays", a.delays != nil, func(ctx context.Context) { a.delays.run(ctx, a.reports.dedup) }},
		{"contention", a.waits != nil, func(ctx context.Context) { a.waits.run(ctx, a.reports.dedup) }},
		{"publishing", true, p.loop},
		{"heartbeat", o.LeaseNamespace != "", h.loop},
	})
	if unsaid := k.units.flush(context.WithoutCancel(ctx), callLimit); unsaid != nil {
		o.Log.Warn("a reload of systemd undoes settings", "error", unsaid)
	}
	o.Log.Info("the agent ends; its settings stay in force")
	return err
}

// task runs until its context ends, or until it has nothing to do on this machine. It logs its
// errors and retries. Dumps of goroutines have its name. Requests of the runtime and of metrics
// have goroutines of their own, which the tasks "runtime" and the server start.
//
// Engine.mu protects the state machine, its status and the writes of settings. These hold it:
//
//	rounds           while they read the machine, decide and write; while they read the cgroups only
//	                 after other changes have postponed three rounds
//	ticks            while they read usage and limits, decide and write
//	load             to copy values, and to pass on what it has read
//	runtime, claims, new pods  while they read one pod's cgroups, decide and write: a container waits for it
//	weight           while it reads and writes the weight of the agent's own pod
//	publishing       to copy values, and to pass on what the API server and the kubelet say
//	batch scheduler, metrics  to copy values
//
// A decision unlocks it while allocations are saved, and while systemd changes a group. A caller that
// needs an allocation that is being saved waits for engine.saved.
//
// These values have locks of their own, which are taken after engine.mu if both are:
//
//	units      for what systemd must be told. The task systemd does not hold it during a call. Who
//	           changes a group waits for the end of a call about it, until callLimit after the call
//	           began. No other call begins during a decision
//	meters, delays, contention, the batch scheduler: sampling and tracing never wait for a decision
//	reports    for the sources of metrics
//	publisher  for the condition that is to be published
//
// The heartbeat takes no lock, because it must notice a round that hangs. All tasks end with the
// context; ticks lower the quotas that are raised. Then systemd is told what it can be told within
// callLimit.
type task struct {
	name string
	on   bool // whether the options want it
	run  func(context.Context)
}

// runTasks runs a server and the tasks until the context ends, or the server fails.
func runTasks(ctx context.Context, serve func(context.Context) error, tasks []task) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return serve(ctx) })
	for _, t := range tasks {
		if t.on {
			group.Go(func() error { pprof.Do(ctx, pprof.Labels("task", t.name), t.run); return nil })
		}
	}
	return group.Wait()
}

// watchPods watches the pods of the node. It does not wait for the first list, because the API
// server may be down.
func watchPods(ctx context.Context, e *engine) error {
	// Not by informers.NewSharedInformerFactory, which links the informers of all kinds.
	informer := informers.NewFilteredPodInformer(e.Client, metav1.NamespaceAll, 0, cache.Indexers{},
		func(options *metav1.ListOptions) { options.FieldSelector = onNode(e.NodeName) })
	if err := informer.SetTransform(trimPod); err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { e.requestRound() },
		UpdateFunc: func(before, after any) { // most updates change only conditions and times
			a, ok := before.(*corev1.Pod)
			b, also := after.(*corev1.Pod)
			if !ok || !also || !pods.Alike(a, b) {
				e.requestRound()
			}
		},
		DeleteFunc: func(any) { e.requestRound() },
	}); err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	if err := informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		e.reports.dedup.Warn("pods", "the pods of this node cannot be watched; using the last known ones", err)
	}); err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	e.with(func(*control.Control) { e.pods.list = func() []*corev1.Pod { return listPods(informer) } })
	go informer.RunWithContext(ctx)
	go func() {
		if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			e.requestRound()
		}
	}()
	return nil
}

// onNode selects the pods of a node.
func onNode(name string) string { return fields.OneTermEqualSelector("spec.nodeName", name).String() }

// listPods returns the pods, or nil until they are known.
func listPods(informer cache.SharedIndexInformer) []*corev1.Pod {
	if !informer.HasSynced() {
		return nil
	}
	all := []*corev1.Pod{}
	for _, object := range informer.GetStore().List() {
		if pod, ok := object.(*corev1.Pod); ok {
			all = append(all, pod)
		}
	}
	return sortPods(all)
}

// sortPods sorts pods by UID, so that decisions do not depend on the order of a list.
func sortPods(pods []*corev1.Pod) []*corev1.Pod {
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return strings.Compare(string(a.UID), string(b.UID)) })
	return pods
}

// trimPod removes large parts of a pod that the agent does not use.
func trimPod(object any) (any, error) {
	if pod, ok := object.(*corev1.Pod); ok {
		pod.ManagedFields = nil
		pod.Spec.Volumes = nil
	}
	return object, nil
}
