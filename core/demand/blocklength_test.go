package demand

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// TestBlockLength takes demands of a known memory.
func TestBlockLength(t *testing.T) {
	for _, c := range []struct {
		name        string
		weight      float64 // of the sample before: autocorrelation falls as its powers
		n           int
		least, most float64
		enough      bool
	}{
		{"no memory", 0, 10_000, 100, 100, true},
		{"a short memory", 0.8, 10_000, 101, 400, true},
		{"a long memory", 0.95, 100_000, 400, 1500, true},
		{"longer than the recording can show", 0.999, 2000, 100, 100, false},
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
		if _, err := NewBlocks(samples, length); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestBlockLengthOfSameSamples has nothing to correlate.
func TestBlockLengthOfSameSamples(t *testing.T) {
	samples := make([]float64, 1000)
	for i := range samples {
		samples[i] = 0.3
	}
	if length, enough := BlockLength(samples); math.Abs(length-math.Sqrt(1000)) > 1e-9 || !enough {
		t.Errorf("blocks of %v periods, enough %v; want 31.6, true", length, enough)
	}
}

// TestBlockLengthOfRhythm has demand that comes every 22 periods: it never forgets, and yet
// a recording of it soon says all.
func TestBlockLengthOfRhythm(t *testing.T) {
	samples := make([]float64, 6000)
	for i := range samples {
		if i%22 < 2 {
			samples[i] = 4
		}
	}
	if length, enough := BlockLength(samples); length != 300 || !enough {
		t.Errorf("blocks of %v periods, enough %v; want 300, true", length, enough)
	}
	for i := range samples { // and now with a day and a night
		samples[i] *= 1.5 + math.Sin(2*math.Pi*float64(i)/float64(len(samples)))
	}
	if length, enough := BlockLength(samples); length != 300 || enough {
		t.Errorf("a slow swing: blocks of %v periods, enough %v; want 300, false", length, enough)
	}
}

// TestAutocorrelation compares with the sums as they are written.
func TestAutocorrelation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		samples := rapid.SliceOfN(rapid.Float64Range(0, 10), 2, 40).Draw(t, "samples")
		samples[0] = 11 // not all are the same
		got := autocorrelation(samples, rapid.IntRange(1, 50).Draw(t, "lags"))
		mean, whole := average(samples), 0.0
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
