package demand

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gonum.org/v1/gonum/stat"

	"pinfold.dev/pinfold/test/must"
)

// TestReplay starts at a given sample, wraps around, and scales to a mean.
func TestReplay(t *testing.T) {
	p, err := NewReplay([]float64{1, 2, 3, 0})
	if err != nil {
		t.Fatal(err)
	}
	p, err = p.WithMean(3)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]float64{6, 0, 2, 4, 6}, take(&replaySource{p.phases, p.phases[0], 2}, nil, 5)); diff != "" {
		t.Error(diff)
	}
	r, begins := rand.New(rand.NewPCG(1, 1)), map[float64]bool{}
	for range 100 {
		begins[p.Start(r).Next(r)] = true
	}
	if len(begins) != 4 {
		t.Errorf("Start begins with the samples %v, want all four", begins)
	}
}

// TestBlocksKeepAutocorrelation compares the autocorrelation with that of the recording, reduced by
// the factor that the theory of the stationary bootstrap predicts.
func TestBlocksKeepAutocorrelation(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	recording := make([]float64, 2000)
	x := 0.0
	for i := range recording { // with a memory of about ten periods
		x = 0.9*x + r.ExpFloat64()
		recording[i] = x
	}
	const length = 50
	p, err := NewBlocks(length, recording)
	if err != nil {
		t.Fatal(err)
	}
	series := take(p.Start(r), r, 1_000_000)
	if off := math.Abs(stat.Mean(series, nil)/p.Mean() - 1); off > 0.02 {
		t.Errorf("the mean is off by %v", off)
	}
	for _, lag := range []int{1, 5, 10} {
		want := correlation(recording, lag) * math.Pow(1-1.0/length, float64(lag))
		if got := correlation(series, lag); math.Abs(got-want) > 0.02 {
			t.Errorf("lag %d: %.3f, want %.3f", lag, got, want)
		}
	}
	alone, err := NewBlocks(1, recording)
	if err != nil {
		t.Fatal(err)
	}
	if got := correlation(take(alone.Start(r), r, 1_000_000), 1); math.Abs(got) > 0.01 {
		t.Errorf("blocks of one period are correlated: %.3f", got)
	}
}

// TestOnOff compares mean, variance and autocorrelation with theory: the covariance of the state
// decays as exp(-(1/on+1/off) t), averaged over two periods.
func TestOnOff(t *testing.T) {
	for _, c := range []struct {
		on, off float64
		clients int
	}{{1.11, 10, 64}, {5, 20, 1}, {0.2, 0.3, 2}, {3, 1, 3}} {
		o := must.Get(NewOnOff(0.5, c.on, c.off, c.clients))(t)
		r := rand.New(rand.NewPCG(3, uint64(c.clients)))
		series := take(o.Start(r), r, 400_000)
		share, rate := c.on/(c.on+c.off), 1/c.on+1/c.off
		fall := -math.Expm1(-rate) / rate
		variance := o.Peak() * o.Peak() * share * (1 - share) / float64(c.clients) * 2 * (1 - fall) / rate
		if got := stat.Mean(series, nil); math.Abs(got/0.5-1) > 0.02 {
			t.Errorf("%v: the mean is %.4f", c, got)
		}
		if got := covariance(series, 0); math.Abs(got/variance-1) > 0.04 {
			t.Errorf("%v: the variance is %.4f, want %.4f", c, got, variance)
		}
		lag1 := fall * fall / (2 * (1 - fall) / rate)
		if got := correlation(series, 1); math.Abs(got-lag1) > 0.02 {
			t.Errorf("%v: the autocorrelation is %.4f, want %.4f", c, got, lag1)
		}
		if largest := slices.Max(series); largest > o.Peak()*(1+1e-12) {
			t.Errorf("%v: %v is above the peak of %v", c, largest, o.Peak())
		}
	}
}

func TestProcessErrors(t *testing.T) {
	some := []float64{1, 2}
	nan := math.NaN()
	for name, err := range map[string]error{
		"empty replay":     second(NewReplay(nil)),
		"NaN in replay":    second(NewReplay([]float64{1, nan})),
		"short blocks":     second(NewBlocks(0.5, some)),
		"NaN blocks":       second(NewBlocks(nan, some)),
		"long blocks":      second(NewBlocks(3, some)),
		"blocks of 0":      second(NewBlocks(1, []float64{0})),
		"no mean":          second(NewOnOff(0, 1, 1, 1)),
		"never on":         second(NewOnOff(1, 0, 1, 1)),
		"never off":        second(NewOnOff(1, 1, nan, 1)),
		"on for too short": second(NewOnOff(1, 1e-9, 1, 1)),
		"on for ever":      second(NewOnOff(1, 1e308, 1e308, 1)),
		"no client":        second(NewOnOff(1, 1, 1, 0)),
		"too many clients": second(NewOnOff(1, 1, 1, 1_000_000_000)),
		"too many changes": second(NewOnOff(1, 1e-3, 1e-3, 100)),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func take(s Source, r *rand.Rand, n int) []float64 {
	var all []float64
	for range n {
		all = append(all, s.Next(r))
	}
	return all
}

func covariance(series []float64, lag int) float64 {
	mean, sum := stat.Mean(series, nil), 0.0
	for i := range len(series) - lag {
		sum += (series[i] - mean) * (series[i+lag] - mean)
	}
	return sum / float64(len(series)-lag)
}

func correlation(series []float64, lag int) float64 {
	return covariance(series, lag) / covariance(series, 0)
}
