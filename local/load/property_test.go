package load

import (
	"math"
	"slices"
	"testing"
	"time"

	"gonum.org/v1/gonum/stat"
	"pgregory.net/rapid"

	"pinfold.dev/pinfold/test/must"
)

// TestQuantileMatchesDefinition compares Quantile with the definition, by counting.
func TestQuantileMatchesDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		percent := rapid.IntRange(1, 100).Draw(t, "percent")
		var r Result
		for _, l := range rapid.SliceOfN(rapid.IntRange(0, 50), 1, 300).Draw(t, "latencies") {
			r.Latencies = append(r.Latencies, time.Duration(l))
		}
		slices.Sort(r.Latencies)
		want := slices.MinFunc(r.Latencies, func(a, b time.Duration) int {
			covers := func(l time.Duration) bool {
				within := 0
				for _, other := range r.Latencies {
					if other <= l {
						within++
					}
				}
				return within*100 >= percent*len(r.Latencies)
			}
			switch {
			case covers(a) && !covers(b):
				return -1
			case covers(b) && !covers(a):
				return 1
			}
			return int(a - b)
		})
		if got := r.Quantile(float64(percent) / 100); got != want {
			t.Fatalf("p%d of %v is %v, want %v", percent, r.Latencies, got, want)
		}
	})
}

// TestDueTimes checks the planned times: they are in order, each batch is within its jitter, none
// is after the end except by its jitter, and the same plan gives the same times.
func TestDueTimes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		every := time.Duration(rapid.IntRange(1, 1000).Draw(t, "every"))
		p := Plan{
			Batch: 1, Every: every, Timeout: 1,
			Duration: time.Duration(rapid.IntRange(1, 20000).Draw(t, "duration")),
			Jitter:   time.Duration(rapid.Int64Range(0, int64(every)-1).Draw(t, "jitter")),
			Seed:     rapid.Uint64().Draw(t, "seed"),
		}
		must.Do(t, p.Check())
		due := p.due()
		if n := time.Duration(len(due)); (n-1)*every >= p.Duration || n*every < p.Duration {
			t.Fatalf("%d batches every %v in %v", n, every, p.Duration)
		}
		for i, at := range due {
			if grid := time.Duration(i) * every; at < grid || at > grid+p.Jitter {
				t.Fatalf("batch %d is due at %v, want %v to %v later", i, at, grid, p.Jitter)
			}
		}
		if !slices.IsSorted(due) || !slices.Equal(due, p.due()) {
			t.Fatalf("due %v and %v", due, p.due())
		}
	})
}

// TestPoisson checks random times: numbers in equal windows have the mean and the variance of a
// Poisson distribution.
func TestPoisson(t *testing.T) {
	const windows, mean = 20_000, 5
	p := Plan{Batch: 1, Every: 1000, Duration: windows * mean * 1000, Poisson: true, Seed: 1, Timeout: 1}
	must.Do(t, p.Check())
	due := p.due()
	if !slices.IsSorted(due) || due[len(due)-1] >= p.Duration || !slices.Equal(due, p.due()) {
		t.Fatal("the times are not in order, not before the end, or not the same for the same seed")
	}
	counts := make([]float64, windows)
	for _, at := range due {
		counts[at/(mean*1000)]++
	}
	if got, variance := stat.MeanVariance(counts, nil); math.Abs(got-mean) > .1 || math.Abs(variance-mean) > .3 {
		t.Errorf("%.2f times in a window, with a variance of %.2f; want %d and %d", got, variance, mean, mean)
	}
	p.Jitter = 1
	if p.Check() == nil {
		t.Error("random times with a jitter: no error")
	}
}
