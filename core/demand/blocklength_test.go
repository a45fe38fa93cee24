package demand

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/stat"
	"pgregory.net/rapid"
)

// TestBlockLength checks demand with a known memory.
func TestBlockLength(t *testing.T) {
	for _, c := range []struct {
		name        string
		weight      float64 // of the previous sample: the autocorrelation at lag k is weight^k
		n           int
		least, most float64
		enough      bool
	}{
		{"no memory", 0, 10_000, 100, 100, true},
		{"a short memory", 0.8, 10_000, 101, 400, true},
		{"a long memory", 0.95, 100_000, 400, 1500, true},
		{"a memory beyond the recording", 0.999, 2000, 100, 100, false},
		{"a short recording", 0, 27, 1.35, 1.35, false},
		{"a single sample", 0, 1, 1, 1, true},
	} {
		r := rand.New(rand.NewPCG(1, 2))
		samples, x := make([]float64, c.n), 0.0
		for i := range samples {
			x = c.weight*x + r.ExpFloat64()
			samples[i] = x
		}
		length, enough := BlockLength(samples)
		if length < c.least-1e-9 || length > c.most+1e-9 || enough != c.enough {
			t.Errorf("%s: blocks of %v periods, enough %v; want %v to %v, %v", c.name, length, enough, c.least, c.most, c.enough)
		}
		if _, err := NewBlocks(length, samples); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestBlockLengthOfSameSamples checks a constant demand.
func TestBlockLengthOfSameSamples(t *testing.T) {
	samples := make([]float64, 1000)
	for i := range samples {
		samples[i] = 0.3
	}
	if length, enough := BlockLength(samples); math.Abs(length-math.Sqrt(1000)) > 1e-9 || !enough {
		t.Errorf("blocks of %v periods, enough %v; want 31.6, true", length, enough)
	}
}

// TestBlockLengthOfPeriodicDemand checks demand that repeats every 22 periods, for which pieces of
// any length are enough, and then the same with a slow change over the recording.
func TestBlockLengthOfPeriodicDemand(t *testing.T) {
	samples := make([]float64, 6000)
	for i := range samples {
		if i%22 < 2 {
			samples[i] = 4
		}
	}
	if length, enough := BlockLength(samples); length != 300 || !enough {
		t.Errorf("blocks of %v periods, enough %v; want 300, true", length, enough)
	}
	for i := range samples {
		samples[i] *= 1.5 + math.Sin(2*math.Pi*float64(i)/float64(len(samples)))
	}
	if length, enough := BlockLength(samples); length != 300 || enough {
		t.Errorf("with a slow change: blocks of %v periods, enough %v; want 300, false", length, enough)
	}
}

// TestAutocorrelation compares the result with the sums of the definition.
func TestAutocorrelation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		samples := rapid.SliceOfN(rapid.Float64Range(0, 10), 2, 40).Draw(t, "samples")
		samples[0] = 11 // not all are equal
		got := autocorrelation(samples, rapid.IntRange(1, 50).Draw(t, "lags"))
		mean, whole := stat.Mean(samples, nil), 0.0
		for _, s := range samples {
			whole += (s - mean) * (s - mean)
		}
		for i, r := range got {
			want := 0.0
			for k := i + 1; k < len(samples); k++ {
				want += (samples[k] - mean) * (samples[k-i-1] - mean) / whole
			}
			if math.Abs(r-want) > 1e-12 {
				t.Fatalf("autocorrelation at lag %d is %v, want %v", i+1, r, want)
			}
		}
	})
}
