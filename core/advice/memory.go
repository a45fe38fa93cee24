package advice

import (
	"math"
	"math/bits"

	"gonum.org/v1/gonum/dsp/fourier"
)

// pieceLength returns how long pieces of samples must be, in periods, in order to keep what
// demand remembers; see the package comment.
func pieceLength(samples []float64) int {
	n := len(samples)
	return max(int(math.Ceil(math.Cbrt(float64(n)))), 2*remembers(autocorrelation(samples), n))
}

// remembers returns the lag from which on the autocorrelation of n samples is no more than
// chance.
func remembers(correlation []float64, n int) int {
	decades := math.Log10(float64(n))
	chance := 2 * math.Sqrt(decades/float64(n))
	row := max(5, int(math.Sqrt(decades)))
	below := 0
	for lag := 1; lag < len(correlation); lag++ {
		below++
		if math.Abs(correlation[lag]) >= chance {
			below = 0
		}
		if below == row {
			return lag - row + 1
		}
	}
	return len(correlation)
}

// autocorrelation returns it for all lags up to half of the samples; zeros when they are all
// alike.
func autocorrelation(samples []float64) []float64 {
	mean := 0.0
	for _, x := range samples {
		mean += x / float64(len(samples))
	}
	// As many zeros as samples keep the ends from meeting.
	padded := make([]float64, 1<<bits.Len(uint(2*len(samples))))
	for i, x := range samples {
		padded[i] = x - mean
	}
	fft := fourier.NewFFT(len(padded))
	spectrum := fft.Coefficients(nil, padded)
	for i, c := range spectrum {
		spectrum[i] = complex(real(c)*real(c)+imag(c)*imag(c), 0)
	}
	sums := fft.Sequence(padded, spectrum)[:len(samples)/2+1]
	// Rounding makes constant demand vary by about this.
	if none := sums[0] / float64(len(padded)); none <= 1e-18*mean*mean*float64(len(samples)) {
		clear(sums)
		return sums
	}
	variance := sums[0]
	for i := range sums {
		sums[i] /= variance
	}
	return sums
}
