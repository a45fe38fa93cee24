package sleep

import (
	"context"
	"errors"
	"testing"
	"time"

	"pinfold.dev/pinfold/test/must"
)

// TestAlarm waits for hours with a context that ends soon.
func TestAlarm(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	alarm := must.Get(NewAlarm(ctx))(t)
	defer alarm.Close()
	for _, until := range []time.Time{{}, time.Now(), time.Now().Add(3 * time.Millisecond)} {
		if err := alarm.Wait(until); err != nil || time.Now().Before(until) {
			t.Errorf("wait until %v: returned at %v, %v", until, time.Now(), err)
		}
	}
	time.AfterFunc(10*time.Millisecond, stop)
	if err := alarm.Wait(time.Now().Add(time.Hour)); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want the context's", err)
	}
	if err := alarm.Wait(time.Now()); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want the context's", err)
	}
}
