package interference

import (
	"math"
	"math/bits"

	"pinfold.dev/pinfold/core/demand"
)

// ziggurat draws from a falling density as integers: Marsaglia and Tsang's ziggurat (2000)
// of 256 layers of equal area. In about 99 of 100 draws it takes one random word, one
// comparison and one multiplication.
type ziggurat struct {
	density density
	scale   float64 // ticks per unit of the density
	layers  [256]layer
	widths  [257]float64 // of the layers, the lowest first; the last is 0
}

// layer holds what the common case needs: below accept a word is surely under the
// curve, and width is the layer's in 1/2^fraction of a tick.
type layer struct{ accept, width uint64 }

const fraction = 24

// density falls from 1 at 0. It need not be normalised.
type density interface {
	at(x float64) float64
	inverse(y float64) float64
	beyond(x float64) float64 // the area of the tail
	// tail draws from what is beyond x, with a number in (0, 1].
	tail(x, u float64) float64
}

// falling is exp(-x).
type falling struct{}

func (falling) at(x float64) float64      { return math.Exp(-x) }
func (falling) inverse(y float64) float64 { return -math.Log(y) }
func (falling) beyond(x float64) float64  { return math.Exp(-x) }
func (falling) tail(x, u float64) float64 { return x - math.Log(u) }

// power is (1+x)^-(shape+1): a Pareto distribution from its minimum on, which is the unit.
type power struct{ shape float64 }

func (p power) at(x float64) float64      { return math.Pow(1+x, -p.shape-1) }
func (p power) inverse(y float64) float64 { return math.Pow(y, -1/(p.shape+1)) - 1 }
func (p power) beyond(x float64) float64  { return math.Pow(1+x, -p.shape) / p.shape }
func (p power) tail(x, u float64) float64 { return (1+x)*math.Pow(u, -1/p.shape) - 1 }

// zigguratOf returns that of a distribution which has one, and the smallest demand, from
// which it draws, in ticks; else nil.
func zigguratOf(p demand.Process, quota int64) (*ziggurat, int64) {
	i, ok := p.(demand.Independent)
	if !ok {
		return nil, 0
	}
	switch d := i.Distribution.(type) {
	case demand.Exponential:
		return newZiggurat(falling{}, d.Mean()*float64(quota)), 0
	case demand.Pareto:
		if math.IsInf(d.Bound(), 1) {
			minimum := d.Minimum() * float64(quota)
			return newZiggurat(power{d.Shape()}, minimum), int64(minimum + 0.5)
		}
	}
	return nil, 0
}

// newZiggurat looks for the place where the lowest layer's rectangle ends such that the
// highest layer ends at 1. It returns nil when the layers are too wide for integers.
func newZiggurat(d density, scale float64) *ziggurat {
	z := &ziggurat{density: d, scale: scale}
	low, high := 0.0, 1.0
	for z.stack(high) {
		if high *= 2; high > 1e9 {
			return nil
		}
	}
	for range 100 {
		if middle := (low + high) / 2; z.stack(middle) {
			low = middle
		} else {
			high = middle
		}
	}
	z.stack(high)
	if z.widths[0]*scale >= 1<<(63-fraction) {
		return nil
	}
	for i := range z.layers {
		z.layers[i] = layer{
			accept: uint64(z.widths[i+1] / z.widths[i] * (1 << 63) * 2),
			width:  uint64(z.widths[i] * scale * (1 << fraction)),
		}
	}
	return z
}

// stack puts layers on a lowest one that ends at x, and says whether they are too high.
func (z *ziggurat) stack(x float64) bool {
	area := x*z.density.at(x) + z.density.beyond(x)
	z.widths[0], z.widths[1] = area/z.density.at(x), x
	for i := 1; i < 256; i++ {
		top := area/z.widths[i] + z.density.at(z.widths[i])
		if i == 255 {
			return top > 1
		}
		if top >= 1 {
			return true
		}
		z.widths[i+1] = z.density.inverse(top)
	}
	return false
}

// generator is wyrand (Wang Yi, 2019; public domain): a counter of 64 bits, and a
// multiplication that mixes it. It passes the usual batteries of tests, and consecutive
// words do not wait for each other.
type generator uint64

const (
	generatorStep = 0x2d358dccaa6c78a5
	generatorMix  = 0x8bb84b93962eacc9
)

func (g *generator) next() uint64 {
	*g += generatorStep
	high, low := bits.Mul64(uint64(*g), uint64(*g)^generatorMix)
	return high ^ low
}

// unit returns a number in [0, 1).
func (g *generator) unit() float64 { return float64(g.next()>>11) * 0x1p-53 }

// fill writes draws less an offset, in ticks, and returns the largest of those that did
// not come from the common case. The loop is generator.next and the common case, written
// out, since calls would cost as much as they do, and a generator whose address is taken
// would live in memory.
func (z *ziggurat) fill(ticks []int64, offset int64, g *generator) float64 {
	state, largest := *g, 0.0
	for i := range ticks {
		state += generatorStep
		high, low := bits.Mul64(uint64(state), uint64(state)^generatorMix)
		word := high ^ low
		l := &z.layers[word&255]
		if word >= l.accept {
			var x float64
			x, state = z.edge(word, state)
			largest = max(largest, x)
			ticks[i] = int64(min(x, roomTicks)) - offset
			continue
		}
		scaled, _ := bits.Mul64(word, l.width)
		ticks[i] = int64(scaled>>fraction) - offset
	}
	*g = state
	return largest
}

// edge finishes a draw that begins with a word which is not surely under the curve. It
// returns the draw, in ticks, and the generator's next state.
func (z *ziggurat) edge(word uint64, g generator) (float64, generator) {
	for {
		i := word & 255
		x := float64(word>>11) * 0x1p-53 * z.widths[i]
		switch {
		case word < z.layers[i].accept:
			return x * z.scale, g
		case i == 0:
			return z.density.tail(z.widths[1], 1-g.unit()) * z.scale, g
		}
		bottom, top := z.density.at(z.widths[i]), z.density.at(z.widths[i+1])
		if bottom+g.unit()*(top-bottom) < z.density.at(x) {
			return x * z.scale, g
		}
		word = g.next()
	}
}
