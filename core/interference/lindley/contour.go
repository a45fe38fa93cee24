package lindley

import (
	"errors"
	"math"
	"math/cmplx"

	"gonum.org/v1/gonum/dsp/fourier"
	"gonum.org/v1/gonum/floats"
)

// errWinding means that zeros of 1 - phi are between the contour and the unit circle, or near the
// contour.
var errWinding = errors.New("the contour does not separate the zeros")

// scaled returns the first size terms of s[k] radius^k.
func scaled(s []float64, radius float64, size int) []float64 {
	out := make([]float64, size)
	power := 1.0
	for k, v := range s[:min(len(s), size)] {
		if k%64 == 0 {
			power = math.Pow(radius, float64(k))
		}
		out[k] = v * power
		power *= radius
	}
	return out
}

// factors holds log((1 - phi(z)) / (1 - 1/z)) on the contour |z| = radius: its coefficients times
// radius^k, those of negative index in the second half of c.
type factors struct {
	fft    *fourier.FFT
	z      []complex128
	c      []float64
	radius float64
}

// factorize computes the coefficients c[k]. V is the all-time maximum of a random walk with steps Y
// = n(X - 1). With phi(z) = E z^Y, Spitzer's identity (1956) gives the generating function of V:
//
//	E z^V = P(V = 0) exp(-sum over k > 0 of c[k] z^k),    log((1 - phi(z)) / (1 - 1/z)) = sum over all k of c[k] z^k
//
// This is the Wiener-Hopf factorization (1931). The tails P(V > k) follow from (1 - E z^V)/(1 - z).
// The radius damps the aliasing of the finite transforms. Outside the unit circle, |phi| < 1 up to
// where E r^Y is 1 again, so the logarithm is well defined, and tails are accurate far below the
// precision of a sum of probabilities. Inside it, zeros of 1 - phi between the circle and 1, which
// stepwise demand has, are detected because the logarithm does not close.
func (l lattice) factorize(radius float64, size int) (factors, error) {
	f := factors{fft: fourier.NewFFT(size), z: circle(radius, size), radius: radius}
	spectrum := f.fft.Coefficients(nil, scaled(l.weights, radius, size))
	if err := l.logarithm(spectrum, f.z, radius); err != nil {
		return factors{}, err
	}
	f.c = f.sequence(spectrum)
	if radius < 1 && f.wrapped() > 1e-5 {
		return factors{}, errWinding
	}
	return f, nil
}

// wrapped returns the size of the coefficients halfway around. They fall geometrically, so the
// aliasing of those near 0 is about its square. It also reveals a zero near the contour, which the
// winding angle may miss.
func (f factors) wrapped() float64 {
	total, half := 0.0, len(f.c)/2
	for _, v := range f.c[half-half/16 : half+half/16] {
		total += math.Abs(v)
	}
	return total
}

// sequence is the inverse transform.
func (f factors) sequence(spectrum []complex128) []float64 {
	s := f.fft.Sequence(nil, spectrum)
	for k := range s {
		s[k] /= float64(len(s))
	}
	return s
}

// positive returns the sum of c[k] z^k over k > 0 on the contour.
func (f factors) positive() []complex128 {
	half := len(f.c) / 2
	c := padded(f.c[:half], len(f.c))
	c[0] = 0
	return f.fft.Coefficients(nil, c)
}

// tails returns P(V > k/n) radius^k for k < size/2 by Wiener-Hopf factorization.
func (l lattice) tails(radius float64, size int) ([]float64, error) {
	f, err := l.factorize(radius, size)
	if err != nil {
		return nil, err
	}
	return l.tailsOf(f), nil
}

func (l lattice) tailsOf(f factors) []float64 {
	empty := l.emptiness(f.c, f.radius)
	spectrum := f.positive()
	for j, s := range spectrum {
		spectrum[j] = (1 - complex(empty, 0)*cmplx.Exp(-s)) / (1 - f.z[j])
	}
	return f.sequence(spectrum)[:len(f.c)/2]
}

// invert returns the d >= 0 with d - E[d(t + 1 - X); X <= 1 + t] = r at the lattice points, all
// times radius^k, for a contour outside the unit circle. It divides by both factors and drops the
// part of negative index in between.
func (f factors) invert(r []float64) []float64 {
	half := len(f.c) / 2
	positive := f.positive()
	negative := padded(f.c, len(f.c))
	clear(negative[1:half])
	minus := f.fft.Coefficients(nil, negative)
	spectrum := f.fft.Coefficients(nil, padded(r[:min(len(r), half)], len(f.c)))
	for j, m := range minus {
		spectrum[j] *= cmplx.Exp(-m) / (1 - 1/f.z[j])
	}
	s := f.sequence(spectrum)
	clear(s[half:])
	spectrum = f.fft.Coefficients(spectrum, s)
	for j, p := range positive {
		spectrum[j] *= cmplx.Exp(-p)
	}
	return f.sequence(spectrum)[:half]
}

// circle returns the points of half of the contour, which is enough for real sequences, in the
// order and with the sign of fourier.FFT.
func circle(radius float64, size int) []complex128 {
	z := make([]complex128, size/2+1)
	for j := range z {
		sin, cos := math.Sincos(-2 * math.Pi * float64(j) / float64(size))
		z[j] = complex(radius*cos, radius*sin)
	}
	return z
}

// logarithm replaces the generating function of demand by log((1 - phi(z)) / (1 - 1/z)), continuous
// along the contour. The division removes the zero at z = 1.
func (l lattice) logarithm(spectrum, z []complex128, radius float64) error {
	shrink := math.Pow(radius, -float64(l.n))
	angle, period := 0.0, 2*(len(z)-1)
	for j, p := range spectrum {
		// z^-n, with its angle reduced in integers
		sin, cos := math.Sincos(2 * math.Pi * float64(j*l.n%period) / float64(period))
		phi := p * complex(shrink*cos, shrink*sin)
		v := (1 - phi) / (1 - 1/z[j])
		now := cmplx.Phase(v)
		now += 2 * math.Pi * math.Round((angle-now)/(2*math.Pi))
		angle = now
		spectrum[j] = complex(math.Log(cmplx.Abs(v)), now)
	}
	if math.Abs(angle) > 1 { // a closed logarithm ends at 0, any other at a multiple of pi
		return errWinding
	}
	return nil
}

// emptiness returns P(V = 0): exp of the sum of the coefficients of positive index. Inside the unit
// circle these are inaccurate; there it follows from all other coefficients and the value of the
// function at z = 1.
func (l lattice) emptiness(c []float64, radius float64) float64 {
	sum, power := 0.0, 1.0
	if radius > 1 {
		for _, v := range c[1 : len(c)/2] {
			power /= radius
			sum += v * power
		}
		return math.Exp(sum)
	}
	sum = c[0]
	for k := len(c) - 1; k > len(c)/2; k-- {
		power *= radius
		sum += c[k] * power
	}
	return l.drift * float64(l.n) * math.Exp(-sum)
}

// convolve returns the product of two sequences, which has at most size terms.
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

// noise bounds the rounding error of a term of convolve: some units in the last place for each of
// the log2(size) stages, by the Euclidean norms (N. J. Higham, Accuracy and Stability of Numerical
// Algorithms, 24.1).
func noise(a, b []float64, size int) float64 {
	const unit = 0x1p-53
	return 8 * unit * math.Log2(float64(size)) * floats.Norm(a, 2) * floats.Norm(b, 2)
}
