// Package leader lets only the replica of a scheduler that leads bind pods:
//
//	leadership := &leader.Leadership{}
//	leadership.Observe(config.LeaderElection, "v1.2.3", "1.37")
//	...
//	done, err := leadership.Begin()
//	defer done()
//	err = leadership.Check() // before each request
package leader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
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
//     first decision, and every new leader waits until it has seen all bound pods ([Leadership.CatchUp]).
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
	// caughtUp is true once CatchUp has returned nil.
	caughtUp atomic.Bool
}

// Observe makes an election report its lease to l, and write to the lease this program's version
// and the version of Kubernetes as which it runs.
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

// Begin is called before the first request about a Binding, and done after the last.
func (l *Leadership) Begin() (done func(), err error) {
	if !l.Elected() {
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

// Elected reports whether there is a lease.
func (l *Leadership) Elected() bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lock != nil
}

// Check returns an error if another replica may be the leader. It is called directly before a
// Binding is sent.
func (l *Leadership) Check() error {
	if !l.Elected() {
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

// Fence returns the value of the annotation in which a Binding names the lease and its holder, ""
// without a lease.
func (l *Leadership) Fence() string {
	if !l.Elected() {
		return ""
	}
	return l.lock.Describe() + " " + l.lock.Identity()
}

// pause returns how long to wait before the next decision, because Bindings of another holder of
// the lease may still be in flight.
func (l *Leadership) pause() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Until(l.quiet)
}
