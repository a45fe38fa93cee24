package waiting

import (
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func named(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
}

// A release activates the refused pods and the one being scheduled, once, but not pods that have a
// node.
func TestWaitingPods(t *testing.T) {
	released := make(chan []string, 1)
	w := New(func(pods map[string]*corev1.Pod) { released <- slices.Sorted(maps.Keys(pods)) },
		func(pod *corev1.Pod) bool { return pod.Name != "deleted" }, time.Millisecond)
	for _, name := range []string{"refused", "placed", "deleted"} {
		w.Add(named(name))
	}
	w.Remove("placed")
	w.Decide(named("deciding"))
	w.Release()
	w.Release()
	if got, want := <-released, []string{"default/deciding", "default/refused"}; !slices.Equal(got, want) {
		t.Errorf("released %v, want %v", got, want)
	}
	w.Decide(named("refused"))
	w.Decide(nil)
	w.Add(named("again"))
	w.Release()
	if got := <-released; !slices.Equal(got, []string{"default/again"}) {
		t.Errorf("released %v", got)
	}
}

// While changes follow each other, the delay of releases doubles up to ten seconds. After a pause
// it starts again with the shortest.
func TestReleasesBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		var at []time.Duration
		var mu sync.Mutex
		w := New(func(map[string]*corev1.Pod) {
			mu.Lock()
			defer mu.Unlock()
			at = append(at, time.Since(begun).Round(time.Millisecond))
		},
			func(*corev1.Pod) bool { return true }, Delay)
		w.Decide(named("a"))
		for range 4000 { // a change every 10 ms, for 40 s
			w.Release()
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		ms := time.Millisecond
		want := []time.Duration{100 * ms, 300 * ms, 700 * ms, 1500 * ms, 3100 * ms, 6300 * ms, 12700 * ms, 22700 * ms, 32700 * ms, 42700 * ms}
		// Each release comes up to 10 ms after a change.
		if len(at) != len(want) {
			t.Fatalf("released at %v, want about %v", at, want)
		}
		for i := range want {
			if late := at[i] - want[i]; late < 0 || late > 100*ms {
				t.Errorf("released at %v, want about %v", at, want)
				break
			}
		}
		paused := time.Since(begun)
		w.Release()
		mu.Unlock()
		time.Sleep(time.Minute)
		mu.Lock()
		if got := at[len(at)-1] - paused; got != 100*ms {
			t.Errorf("after a pause released within %v", got)
		}
	})
}

// TestGated: the queue does not take back a pod while a preemption for it is under way. It is activated again
// until it is tried, and not after that.
func TestGated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		var mu sync.Mutex
		var at []time.Duration
		var w *Pods
		w = New(func(pods map[string]*corev1.Pod) {
			mu.Lock()
			defer mu.Unlock()
			at = append(at, time.Since(begun).Round(time.Millisecond))
			if pod := pods["default/gated"]; len(at) == 4 && pod != nil {
				w.Decide(pod) // the preemption has ended
				w.Add(pod)    // it does not fit
			}
		}, func(*corev1.Pod) bool { return true }, Delay)
		w.Add(named("gated"))
		w.Release()
		time.Sleep(time.Hour)
		mu.Lock()
		defer mu.Unlock()
		ms := time.Millisecond
		if want := []time.Duration{100 * ms, 1100 * ms, 3100 * ms, 7100 * ms}; !slices.Equal(at, want) {
			t.Errorf("activated at %v, want %v", at, want)
		}
	})
}
