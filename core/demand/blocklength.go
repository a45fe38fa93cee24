package demand

import (
	"math"

	"gonum.org/v1/gonum/dsp/fourier"
	"gonum.org/v1/gonum/stat"
)

const (
	// blockTimes is the length of pieces as a multiple of the memory of the demand. At the longest
	// lag of the memory, nine tenths of the autocorrelation are preserved.
	blockTimes = 10
	// minBlocks is the minimum number of pieces of the mean length in a recording.
	minBlocks = 20
	// MinSamples is the least number of samples that is enough for pieces of any length.
	MinSamples = minBlocks * minBlocks
	// quietLags is the number of consecutive lags without correlation that end the memory.
	quietLags = 5
)

// BlockLength returns the mean length of pieces for NewBlocks, in periods. It is ten times the
// memory of the demand, but at least the square root of the number n of samples (weak correlation
// disappears in the noise, but makes bursts longer), and at most n/20. enough is false if the
// pieces had to be too short for the memory.
//
// The memory is the lag before the first five consecutive autocorrelations within 2
// sqrt(log10(n)/n) (D. N. Politis and H. White, Automatic block-length selection for the dependent
// bootstrap, 2004). Periodic demand has an infinite memory. So the longest pieces are also enough
// if the averages of consecutive pieces are not correlated.
func BlockLength(samples []float64) (length float64, enough bool) {
	n := float64(len(samples))
	maxLength := max(1, n/minBlocks)
	noise := 2 * math.Sqrt(math.Log10(n)/n)
	memory, quiet := 0, 0
	for lag, r := range autocorrelation(samples, int(maxLength/blockTimes)+quietLags) {
		if quiet++; math.Abs(r) > noise {
			memory, quiet = lag+1, 0
		}
		if quiet == quietLags {
			break
		}
	}
	wanted := max(math.Sqrt(n), blockTimes*float64(memory))
	if wanted <= maxLength {
		return wanted, true
	}
	return maxLength, math.Sqrt(n) <= maxLength && unrelated(samples, int(maxLength))
}

// unrelated reports whether the averages of pieces vary no more than those of independent samples,
// as with periodic demand, or are not correlated with the average of the previous piece. The
// samples must not all be equal.
func unrelated(samples []float64, piece int) bool {
	means := make([]float64, len(samples)/piece)
	for i := range means {
		means[i] = stat.Mean(samples[i*piece:(i+1)*piece], nil)
	}
	if float64(piece)*stat.PopVariance(means, nil) <= stat.PopVariance(samples, nil) {
		return true
	}
	return autocorrelation(means, 1)[0] <= 2/math.Sqrt(float64(len(means)))
}

// autocorrelation returns the autocorrelation for the lags 1 to n, or fewer if the recording is too
// short, by a Fourier transform. Beyond its ends the recording counts as 0. For equal samples the
// result is 0.
func autocorrelation(samples []float64, n int) []float64 {
	mean := stat.Mean(samples, nil)
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
	if whole <= 1e-20*mean*mean*float64(size*len(samples)) { // only rounding errors
		whole = math.Inf(1)
	}
	for i := range lags {
		lags[i] /= whole
	}
	return lags
}
