package nri

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestGuardTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, began := newGuard(), time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), 800*time.Millisecond)
		defer cancel()
		_, err := ask(ctx, g, func(ctx context.Context) (int, error) {
			<-ctx.Done()
			if d := time.Since(began); d != 600*time.Millisecond {
				t.Errorf("the handler had %v of 800ms", d)
			}
			time.Sleep(2 * time.Second) // and does not mind
			return 1, nil
		})
		if d := time.Since(began); !errors.Is(err, errNoAnswer) || d != 700*time.Millisecond {
			t.Errorf("%v after %v of 800ms", err, d)
		}

		// The call is still running: no second one may start.
		_, err = ask(context.Background(), g, func(context.Context) (int, error) {
			t.Error("called while another call runs")
			return 0, nil
		})
		if !errors.Is(err, errNoAnswer) || !strings.Contains(err.Error(), "still runs") {
			t.Errorf("%v", err)
		}
		if d := time.Since(began); d != 700*time.Millisecond {
			t.Errorf("a second call waited for the abandoned one until %v", d)
		}
		g.wait(context.Background())
		if d := time.Since(began); d != 2600*time.Millisecond {
			t.Errorf("ended after %v", d)
		}

		n, err := ask(context.Background(), g, func(context.Context) (int, error) { return 7, nil })
		if n != 7 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	})
}

func TestGuardErrors(t *testing.T) {
	refused := errors.New("refused")
	for _, test := range []struct {
		name string
		f    func(context.Context) (int, error)
		want error
		text string
	}{
		{"error", func(context.Context) (int, error) { return 1, refused }, refused, "refused"},
		{"panic", func(context.Context) (int, error) { panic("out of order") }, errNoAnswer, "out of order"},
		{"fault", func(context.Context) (int, error) { var s *Settings; return int(s.Quota), nil }, errNoAnswer, "nil pointer"},
		// The runtime would take these for its own errors and drop the plugin.
		{"deadline", func(context.Context) (int, error) { return 0, fmt.Errorf("read: %w", context.DeadlineExceeded) }, errNoAnswer, "read"},
		{"canceled", func(context.Context) (int, error) { return 0, context.Canceled }, errNoAnswer, "canceled"},
	} {
		g := newGuard()
		if _, err := ask(context.Background(), g, test.f); !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.text) {
			t.Errorf("%s: %v", test.name, err)
		}
		g.wait(context.Background())
	}
}

func TestGuardOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls, at atomic.Int64
		g := newGuard()
		for range 100 {
			go func() {
				_, err := ask(context.Background(), g, func(context.Context) (int, error) {
					if at.Add(1) != 1 {
						t.Error("two calls at a time")
					}
					time.Sleep(time.Millisecond)
					calls.Add(1)
					at.Add(-1)
					return 0, nil
				})
				if err != nil {
					t.Error(err)
				}
			}()
		}
		time.Sleep(time.Second)
		if n := calls.Load(); n != 100 {
			t.Errorf("%d calls", n)
		}
	})
}
