package scheduler

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"pinfold.dev/pinfold/internal/sleep"
)

// Leadership tracks the lease that makes one of several replicas of a scheduler the leader. A
// replica can be paused and continue when another one leads. Then it must not bind pods:
//
//   - Before each Binding it checks that it renewed the lease, confirmed by the API server, within
//     the renew deadline. Other replicas wait longer than that before they take the lease.
//   - The Binding names the holder of the lease, and the API server rejects it if another replica
//     holds the lease (package admission), because a process can be paused between the check and
//     the request.
//   - A leader that stops releases the lease only when none of its Bindings is in flight. A leader
//     that took the lease from another holder waits for the election's retry period before its
//     first decision, and every new leader waits until it has seen all bound pods; see catchUp.
//
// A nil *Leadership, or one that observes no lease, allows everything: it belongs to a scheduler
// without leader election.
type Leadership struct {
	mu       sync.Mutex
	lock     resourcelock.Interface
	lasts    time.Duration // validity of a renewal
	quietFor time.Duration // pause after the lease was taken from another holder

	renewed time.Time // when the last confirmed renewal was sent
	holder  string    // of the lease, as last seen
	quiet   time.Time // no decision before this time
	ended   bool
	sending sync.WaitGroup // Bindings in flight

	fresh atomic.Bool // see catchUp
}

// Observe makes an election report its lease to l, and write to the lease this program's version and
// the version of Kubernetes as which it runs.
func (l *Leadership) Observe(config *leaderelection.LeaderElectionConfig, version, kubernetes string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	recordVersion(config.Lock, version, kubernetes)
	l.lock, l.lasts, l.quietFor = config.Lock, config.RenewDeadline, config.RetryPeriod
	config.Lock = observedLock{config.Lock, l}
}

// observedLock reports all reads and writes of the lease to a Leadership.
type observedLock struct {
	resourcelock.Interface
	leadership *Leadership
}

// Get implements resourcelock.Interface.
func (o observedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := o.Interface.Get(ctx)
	if err == nil {
		o.leadership.mu.Lock()
		o.leadership.holder = record.HolderIdentity
		o.leadership.mu.Unlock()
	}
	return record, raw, err
}

// Create implements resourcelock.Interface.
func (o observedLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	sent := time.Now()
	err := o.Interface.Create(ctx, record)
	o.leadership.wrote(record.HolderIdentity, sent, err)
	return err
}

// Update implements resourcelock.Interface. It renews, takes or releases the lease.
func (o observedLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity == "" {
		if err := o.leadership.end(ctx); err != nil {
			return err
		}
	}
	sent := time.Now()
	err := o.Interface.Update(ctx, record)
	o.leadership.wrote(record.HolderIdentity, sent, err)
	return err
}

func (l *Leadership) wrote(holder string, sent time.Time, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil || holder != l.lock.Identity() {
		return
	}
	if l.holder != "" && l.holder != holder {
		l.quiet = time.Now().Add(l.quietFor)
	}
	l.renewed, l.holder = sent, holder
}

// end prevents new Bindings and returns when none is in flight.
func (l *Leadership) end(ctx context.Context) error {
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	idle := make(chan struct{})
	go func() { l.sending.Wait(); close(idle) }()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("release the lease: Bindings are still in flight, so the lease will expire instead: %w", ctx.Err())
	}
}

// begin is called before the first request about a Binding, and done after the last.
func (l *Leadership) begin() (done func(), err error) {
	if !l.elected() {
		return func() {}, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return nil, errors.New("this scheduler is stopping")
	}
	l.sending.Add(1)
	return l.sending.Done, nil
}

// elected reports whether there is a lease.
func (l *Leadership) elected() bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lock != nil
}

// check returns an error if another replica may be the leader. It is called directly before a
// Binding is sent.
func (l *Leadership) check() error {
	if !l.elected() {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	// The monotonic clock stops while a virtual machine is suspended, and the wall clock can be set
	// back.
	age := max(now.Sub(l.renewed), now.Round(0).Sub(l.renewed.Round(0)))
	if l.renewed.IsZero() || age >= l.lasts {
		return fmt.Errorf("this scheduler renewed its lease %s last %v ago, so another one may lead", l.lock.Describe(), age.Round(time.Millisecond))
	}
	return nil
}

// fence returns the value of the annotation in which a Binding names the lease and its holder, ""
// without a lease.
func (l *Leadership) fence() string {
	if !l.elected() {
		return ""
	}
	return l.lock.Describe() + " " + l.lock.Identity()
}

// boundPods selects the pods that hold CPUs.
const boundPods = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"

// catchUp returns nil if this scheduler, which is the leader, may decide: no Binding of the previous
// leader is in flight, and the snapshot of this cycle contains all pods that were bound then. It
// must be called in a scheduling cycle. Once it has returned nil, it always does.
func (p *Plugin) catchUp(ctx context.Context) error {
	l := p.leadership
	if !l.elected() || l.fresh.Load() {
		return nil
	}
	l.mu.Lock()
	wait := time.Until(l.quiet)
	l.mu.Unlock()
	if wait > 0 {
		klog.FromContext(ctx).Info("This scheduler has taken the lease from another one and waits for Bindings of that one", "wait", wait)
		if !sleep.For(ctx, wait) {
			return ctx.Err()
		}
		// The snapshot of this cycle may be older than those Bindings.
		return errors.New("this scheduler has just become the leader and waited for Bindings of the previous one")
	}
	pods, err := listBound(ctx, p.handle)
	if err != nil {
		return fmt.Errorf("list bound pods before the first decision: %w", err)
	}
	missing, err := p.notSeen(pods)
	if err != nil {
		return fmt.Errorf("compare bound pods before the first decision: %w", err)
	}
	if missing > 0 {
		return fmt.Errorf("this scheduler has just become the leader, and %d bound pods have not reached it yet", missing)
	}
	l.fresh.Store(true)
	return nil
}

// listBound lists the pods that are bound now. Without a resource version the API server answers
// from etcd, or from a cache that is up to date.
func listBound(ctx context.Context, handle fwk.Handle) ([]metav1.PartialObjectMetadata, error) {
	client, err := metadata.NewForConfig(handle.KubeConfig())
	if err != nil {
		return nil, err
	}
	list, err := client.Resource(corev1.SchemeGroupVersion.WithResource("pods")).List(ctx, metav1.ListOptions{FieldSelector: boundPods})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// notSeen counts the pods that are missing on their nodes in this cycle's snapshot. Pods on nodes
// that the scheduler does not know are not counted, because nothing can be scheduled there.
func (p *Plugin) notSeen(bound []metav1.PartialObjectMetadata) (missing int, err error) {
	nodes, err := p.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return 0, err
	}
	seen, known := map[types.UID]bool{}, map[string]bool{}
	for _, node := range nodes {
		known[node.Node().Name] = true
		for _, info := range node.GetPods() {
			seen[info.GetPod().UID] = true
		}
	}
	lister := p.handle.SharedInformerFactory().Core().V1().Pods().Lister()
	for i := range bound {
		if seen[bound[i].UID] {
			continue
		}
		pod, err := lister.Pods(bound[i].Namespace).Get(bound[i].Name)
		if err != nil || pod.UID != bound[i].UID || pod.Spec.NodeName == "" || known[pod.Spec.NodeName] {
			missing++
		}
	}
	return missing, nil
}
