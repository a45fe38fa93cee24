package scheduler

import (
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// A release returns the pods that were refused, and the one that is being decided about, to
// the queue, once; what was given a node stays away.
func TestWaitingPods(t *testing.T) {
	released := make(chan []string, 1)
	w := newWaitingPods(func(pods map[string]*corev1.Pod) { released <- slices.Sorted(maps.Keys(pods)) },
		func(pod *corev1.Pod) bool { return pod.Name != "deleted" })
	w.delay = time.Millisecond
	for _, name := range []string{"refused", "placed", "deleted"} {
		w.add(askingPod(name, 2))
	}
	w.remove("placed")
	w.deciding.Store(askingPod("deciding", 2))
	w.release()
	w.release()
	if got, want := <-released, []string{"default/deciding", "default/refused"}; !slices.Equal(got, want) {
		t.Errorf("released %v, want %v", got, want)
	}
	w.deciding.Store(nil)
	w.add(askingPod("again", 2))
	w.release()
	if got := <-released; !slices.Equal(got, []string{"default/again"}) {
		t.Errorf("released %v", got)
	}
}

// Changes that follow each other release pods less and less often, and at most every ten
// seconds; after a pause the next release is prompt again.
func TestReleasesBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		var at []time.Duration
		var mu sync.Mutex
		w := newWaitingPods(func(map[string]*corev1.Pod) {
			mu.Lock()
			defer mu.Unlock()
			at = append(at, time.Since(begun).Round(time.Millisecond))
		},
			func(*corev1.Pod) bool { return true })
		w.deciding.Store(askingPod("a", 2))
		for range 4000 { // a change every 10 ms, for 40 s
			w.release()
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		ms := time.Millisecond
		want := []time.Duration{100 * ms, 300 * ms, 700 * ms, 1500 * ms, 3100 * ms, 6300 * ms, 12700 * ms, 22700 * ms, 32700 * ms, 42700 * ms}
		// Each release comes up to 10 ms after the change before it.
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
		w.release()
		mu.Unlock()
		time.Sleep(time.Minute)
		mu.Lock()
		if got := at[len(at)-1] - paused; got != 100*ms {
			t.Errorf("after a pause released within %v", got)
		}
	})
}
