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
		if p.Random = rapid.Bool().Draw(t, "random"); p.Random {
			p.Jitter = 0
		}
		must.Do(t, p.Check())
		due := p.due()
		if n := time.Duration(len(due)); (n-1)*every >= p.Duration || n*every < p.Duration {
			t.Fatalf("%d batches every %v in %v", n, every, p.Duration)
		}
		for i, at := range due {
			if p.Random {
				if at < 0 || at >= p.Duration {
					t.Fatalf("batch %d is due at %v, want less than %v", i, at, p.Duration)
				}
				continue
			}
			if grid := time.Duration(i) * every; at < grid || at > grid+p.Jitter {
				t.Fatalf("batch %d is due at %v, want %v to %v later", i, at, grid, p.Jitter)
			}
		}
		if !slices.IsSorted(due) || !slices.Equal(due, p.due()) {
			t.Fatalf("due %v and %v", due, p.due())
		}
	})
}

// TestLevel checks that level clients plan as many requests as their rate and the share of the time
// in which they are on say, whatever the seed.
func TestLevel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Clients{
			Number: rapid.IntRange(8, 64).Draw(t, "number"), On: 111 * time.Millisecond, Off: time.Second,
			Pause: time.Duration(rapid.IntRange(100, 1000).Draw(t, "pause")) * time.Microsecond, Planned: true,
			Duration: time.Duration(rapid.IntRange(2000, 8000).Draw(t, "duration")) * time.Millisecond,
			Seed:     rapid.Uint64().Draw(t, "seed"), Timeout: time.Second,
		}
		want := float64(c.Number) * float64(c.Duration) / float64(c.Pause) * float64(c.On) / float64(c.On+c.Off)
		got, on := 0, time.Duration(0)
		level := c.Level()
		for i := range level.Number {
			one := level.client(i)
			one.phases(func(from, to time.Duration) time.Duration {
				got += int((to - from + level.Pause - 1) / level.Pause) // one at the beginning, too
				on += to - from
				return to
			})
		}
		want = min(want, 4*float64(on)/float64(c.Pause)) // the pause is not less than a quarter
		if d := float64(got) / want; d < 0.95 || d > 1.05 {
			t.Fatalf("%d requests are planned, want about %.0f", got, want)
		}
	})
}

// TestRandomTimes checks that times between random requests have an exponential distribution: their mean
// and their standard deviation are the same.
func TestRandomTimes(t *testing.T) {
	p := Plan{Batch: 1, Every: time.Millisecond, Duration: 20 * time.Second, Random: true, Seed: 1, Timeout: time.Second}
	var between []float64
	due := p.due()
	for i, at := range due[1:] {
		between = append(between, float64(at-due[i]))
	}
	mean, deviation := stat.MeanStdDev(between, nil)
	if ms := float64(time.Millisecond); math.Abs(mean/ms-1) > .01 || math.Abs(deviation/ms-1) > .05 {
		t.Errorf("the times between requests are %v on average, with a deviation of %v, want 1 ms for both", time.Duration(mean), time.Duration(deviation))
	}
}

// TestSince: what was due before counts neither as an answer nor in the time.
func TestSince(t *testing.T) {
	r := Result{Took: 10 * time.Second, Lateness: 3, Failures: map[string]int{"no": 1}}
	r.collect([]outcome{{due: 1, latency: 9}, {due: 5, latency: 2}, {due: 6, latency: 1}})
	got := r.Since(5)
	if !slices.Equal(got.Latencies, []time.Duration{1, 2}) || len(got.Answered) != 2 || got.Took != 10*time.Second-5 || got.Lateness != 3 || got.Failed() != 1 {
		t.Errorf("%+v", got)
	}
	if len(r.Latencies) != 3 || len(r.Answered) != 3 {
		t.Errorf("the result itself has changed: %+v", r)
	}
}
