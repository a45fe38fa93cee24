package scheduler

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

// Leadership is what a scheduler knows of the lease that makes one of several replicas
// active. It keeps a replica that was stopped, and goes on when another one leads, from
// binding pods:
//
//   - before each Binding it looks when the lease was last renewed, as the API server
//     has confirmed. A replica waits for longer than that before it takes the lease;
//   - the Binding names the holder of the lease, and the API server refuses one that
//     names another than the present (package admission), because a process can be
//     stopped between looking and sending;
//   - a leader that ends gives the lease away only when none of its Bindings is on its
//     way. A leader that took the lease from one that did not waits for the retry period
//     of the election before its first decision, and every new leader waits until it has
//     seen all bound pods; see catchUp.
//
// A nil *Leadership, or one that observes no lease, is of a scheduler without leader
// election, and keeps nothing back.
type Leadership struct {
	mu       sync.Mutex
	lock     resourcelock.Interface
	lasts    time.Duration // of a renewal
	quietFor time.Duration // after the lease was taken from another holder

	renewed time.Time // when the last renewal was sent
	holder  string    // of the lease, as last seen
	quiet   time.Time // nothing is decided before
	ended   bool
	sending int
	idle    chan struct{} // closed when sending becomes 0, nil when nobody waits

	fresh atomic.Bool // see catchUp
}

// Observe makes an election tell l of its lease.
func (l *Leadership) Observe(config *leaderelection.LeaderElectionConfig) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lock, l.lasts, l.quietFor = config.Lock, config.RenewDeadline, config.RetryPeriod
	config.Lock = observedLock{config.Lock, l}
}

// observedLock tells a Leadership what is read of the lease and written to it.
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

// Update implements resourcelock.Interface. It renews the lease, takes it, or gives it away.
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

// end lets no Binding begin any more, and returns when none is on its way.
func (l *Leadership) end(ctx context.Context) error {
	l.mu.Lock()
	l.ended = true
	idle := make(chan struct{})
	if l.idle = idle; l.sending == 0 {
		close(idle)
		l.idle = nil
	}
	l.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("give the lease away: Bindings are still on their way, so it is left to run out: %w", ctx.Err())
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
		return nil, errors.New("this scheduler ends")
	}
	l.sending++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.sending--; l.sending == 0 && l.idle != nil {
			close(l.idle)
			l.idle = nil
		}
	}, nil
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

// check returns an error when another replica may lead. It is called directly before a
// Binding is sent.
func (l *Leadership) check() error {
	if !l.elected() {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	// The monotonic clock does not go on while a virtual machine is suspended, and the
	// other one can be set back.
	age := max(now.Sub(l.renewed), now.Round(0).Sub(l.renewed.Round(0)))
	if l.renewed.IsZero() || age >= l.lasts {
		return fmt.Errorf("this scheduler renewed its lease %s last %v ago, so another one may lead", l.lock.Describe(), age.Round(time.Millisecond))
	}
	return nil
}

// fence is the value of the annotation by which a Binding names the lease and its holder,
// "" without a lease.
func (l *Leadership) fence() string {
	if !l.elected() {
		return ""
	}
	return l.lock.Describe() + " " + l.lock.Identity()
}
