package leader

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"pinfold.dev/pinfold/test/must"
)

// lease is a lease on an API server that can be slow or unreachable.
type lease struct {
	resourcelock.Interface
	holder string
	delay  time.Duration
	err    error
}

func (l *lease) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	return &resourcelock.LeaderElectionRecord{HolderIdentity: l.holder}, nil, nil
}

func (l *lease) Update(_ context.Context, record resourcelock.LeaderElectionRecord) error {
	time.Sleep(l.delay)
	if l.err == nil {
		l.holder = record.HolderIdentity
	}
	return l.err
}

func (l *lease) Identity() string { return "me" }
func (l *lease) Describe() string { return "kube-system/kube-scheduler" }

// observe returns a Leadership that observes the lease, and the lock for the election.
func observe(t *testing.T, l *lease) (*Leadership, resourcelock.Interface) {
	t.Helper()
	leadership := &Leadership{}
	config := &leaderelection.LeaderElectionConfig{Lock: l, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second}
	leadership.Observe(config, "v1.2.3", "1.36")
	if _, _, err := config.Lock.Get(t.Context()); err != nil {
		t.Fatal(err)
	}
	return leadership, config.Lock
}

var mine = resourcelock.LeaderElectionRecord{HolderIdentity: "me"}

// A scheduler may bind as long as no other one can have taken its lease.
func TestLeadershipExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lease{holder: "other"}
		leadership, lock := observe(t, l)
		if leadership.Check() == nil {
			t.Error("it may bind before it has the lease")
		}
		if err := lock.Update(t.Context(), mine); err != nil || leadership.Check() != nil {
			t.Fatalf("it has the lease: %v, %v", err, leadership.Check())
		}
		if quiet := leadership.pause(); quiet != 2*time.Second {
			t.Errorf("the lease was taken from another holder, and it waits for %v", quiet)
		}
		time.Sleep(9 * time.Second)
		l.err = errors.New("unreachable")
		if err := lock.Update(t.Context(), mine); err == nil {
			t.Error("the error is not returned")
		}
		if err := leadership.Check(); err != nil {
			t.Errorf("after 9s: %v", err)
		}
		time.Sleep(time.Second)
		if leadership.Check() == nil {
			t.Error("it may bind 10s after the last renewal that succeeded")
		}
		l.err, l.delay = nil, 8*time.Second
		if err := lock.Update(t.Context(), mine); err != nil || leadership.Check() != nil {
			t.Errorf("renewed: %v, %v", err, leadership.Check())
		}
		if time.Sleep(2 * time.Second); leadership.Check() == nil {
			t.Error("it may bind 10s after the renewal was sent")
		}
	})
}

// A lease that its holder has released is taken without a pause.
func TestReleasedLease(t *testing.T) {
	leadership, lock := observe(t, &lease{})
	if err := lock.Update(t.Context(), mine); err != nil || leadership.Check() != nil || !leadership.quiet.IsZero() {
		t.Errorf("%v, %v, quiet until %v", err, leadership.Check(), leadership.quiet)
	}
}

// The lease is released only when no Binding is in flight.
func TestLeaderStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lease{holder: "me"}
		leadership, lock := observe(t, l)
		done := must.Get(leadership.Begin())(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := lock.Update(ctx, resourcelock.LeaderElectionRecord{}); !errors.Is(err, context.DeadlineExceeded) || l.holder != "me" {
			t.Errorf("%v; the holder is %q", err, l.holder)
		}
		time.AfterFunc(time.Second, done)
		begun := time.Now()
		if err := lock.Update(t.Context(), resourcelock.LeaderElectionRecord{}); err != nil || l.holder != "" || time.Since(begun) != time.Second {
			t.Errorf("%v after %v; the holder is %q", err, time.Since(begun), l.holder)
		}
		if _, err := leadership.Begin(); err == nil {
			t.Error("a Binding may begin after the lease was released")
		}
	})
}

// Without an election nothing is prevented.
func TestNoElection(t *testing.T) {
	for _, leadership := range []*Leadership{nil, {}} {
		done, err := leadership.Begin()
		if err != nil || leadership.Check() != nil || leadership.Fence() != "" {
			t.Errorf("%v, %v, %q", err, leadership.Check(), leadership.Fence())
		}
		done()
	}
}
