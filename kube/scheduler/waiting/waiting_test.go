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
	w.Decide(nil)
	w.Add(named("again"))
	w.Release()
	if got := <-released; !slices.Equal(got, []string{"default/again"}) {
		t.Errorf("released %v", got)
	}
}

// A pod has waited since it was first refused, however often it was released and refused again.
func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(func(map[string]*corev1.Pod) {}, func(*corev1.Pod) bool { return true }, Delay)
		expect := func(pods int, longest time.Duration) {
			t.Helper()
			if n, d := w.Wait(); n != pods || d != longest {
				t.Errorf("%d pods wait, the first for %v, want %d and %v", n, d, pods, longest)
			}
		}
		expect(0, 0)
		w.Add(named("first"))
		time.Sleep(time.Hour)
		w.Release()
		w.Add(named("second"))
		time.Sleep(time.Minute)
		expect(2, time.Hour+time.Minute)
		w.Add(named("first"))
		expect(2, time.Hour+time.Minute)
		w.Remove("first")
		expect(1, time.Minute)
		w.Remove("second")
		expect(0, 0)
	})
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
