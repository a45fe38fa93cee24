package lindley

import (
	"math"

	"gonum.org/v1/gonum/dsp/fourier"
)

// convolve returns the first size terms of the product of two sequences, which has no
// more than that.
func convolve(a, b []float64, size int) []float64 {
	fft := fourier.NewFFT(size)
	x := fft.Coefficients(nil, padded(a, size))
	y := fft.Coefficients(nil, padded(b, size))
	for i := range x {
		x[i] *= y[i]
	}
	out := fft.Sequence(nil, x)
	for i := range out {
		out[i] /= float64(size)
	}
	return out
}

func padded(s []float64, size int) []float64 {
	out := make([]float64, size)
	copy(out, s)
	return out
}

// noise bounds the rounding errors in a term of convolve: some units in the last place
// for each of the log2(size) stages, by the Euclidean norms (Higham, Accuracy and
// Stability of Numerical Algorithms, 24.1).
func noise(a, b []float64, size int) float64 {
	const unit = 0x1p-53
	return 8 * unit * math.Log2(float64(size)) * norm(a) * norm(b)
}

func norm(s []float64) float64 {
	total := 0.0
	for _, v := range s {
		total += v * v
	}
	return math.Sqrt(total)
}
