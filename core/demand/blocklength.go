package demand

import (
	"math"

	"gonum.org/v1/gonum/dsp/fourier"
)

const (
	// blockTimes is how much longer pieces are than the demand remembers: at the end of its
	// memory nine tenths of the autocorrelation are left.
	blockTimes = 10
	// leastBlocks is how many pieces of the mean length a recording has at least.
	leastBlocks = 20
	// quietLags in a row without correlation end the memory.
	quietLags = 5
)

// BlockLength returns the mean length of pieces for NewBlocks, in periods: ten times as long
// as the samples remember, but not less than the square root of their number (weak memory is
// lost in the noise, and yet makes bursts longer), and at most a twentieth of it.
//
// The memory ends before the first lag from which on five autocorrelations are within
// 2 sqrt(log10(n)/n), as D. N. Politis and H. White have it (Automatic block-length selection
// for the dependent bootstrap, 2004). What comes in a steady rhythm remembers that for ever;
// so the longest pieces will do, too, where their averages do not tell that they followed
// one another. Enough is false when pieces had to be shorter than demand remembers.
func BlockLength(samples []float64) (length float64, enough bool) {
	n := float64(len(samples))
	most := max(1, n/leastBlocks)
	noise := 2 * math.Sqrt(math.Log10(n)/n)
	memory, quiet := 0, 0
	for lag, r := range autocorrelation(samples, int(most/blockTimes)+quietLags) {
		if quiet++; math.Abs(r) > noise {
			memory, quiet = lag+1, 0
		}
		if quiet == quietLags {
			break
		}
	}
	wanted := max(math.Sqrt(n), blockTimes*float64(memory))
	if wanted <= most {
		return wanted, true
	}
	return most, math.Sqrt(n) <= most && unrelated(samples, int(most))
}

// unrelated reports whether averages of pieces vary no more than those of independent
// samples (they balance each other in a rhythm), or are not correlated with the one before.
// Samples are not all the same.
func unrelated(samples []float64, piece int) bool {
	means := make([]float64, len(samples)/piece)
	for i := range means {
		means[i] = average(samples[i*piece : (i+1)*piece])
	}
	if float64(piece)*variance(means) <= variance(samples) {
		return true
	}
	return autocorrelation(means, 1)[0] <= 2/math.Sqrt(float64(len(means)))
}

func variance(samples []float64) float64 {
	mean, sum := average(samples), 0.0
	for _, s := range samples {
		sum += (s - mean) * (s - mean)
	}
	return sum / float64(len(samples))
}

// autocorrelation returns that of lags 1 to n, where the recording is long enough; all are 0
// when the samples are the same. It is that of the recording as it is, as though 0 came
// before and after, by a Fourier transform.
func autocorrelation(samples []float64, n int) []float64 {
	mean := average(samples)
	size := 1
	for size < len(samples)+n+1 {
		size *= 2
	}
	padded := make([]float64, size)
	for i, s := range samples {
		padded[i] = s - mean
	}
	transform := fourier.NewFFT(size)
	spectrum := transform.Coefficients(nil, padded)
	for i, c := range spectrum {
		spectrum[i] = complex(real(c)*real(c)+imag(c)*imag(c), 0)
	}
	sums := transform.Sequence(padded, spectrum)
	lags, whole := sums[1:min(n, len(samples)-1)+1], sums[0]
	if whole <= 1e-20*mean*mean*float64(size*len(samples)) { // nothing but rounding
		whole = math.Inf(1)
	}
	for i := range lags {
		lags[i] /= whole
	}
	return lags
}
